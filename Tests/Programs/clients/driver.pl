#!/usr/bin/perl
# A program with connections that connctl guard --stdin guards. It ends them itself. Reads commands,
# a line each, and prints events. See driver.py. CONNCTL is the path of connctl.
use strict;
use warnings;
use IO::Socket::INET;
use IO::Select;
use IPC::Open2;

$| = 1;
$SIG{PIPE} = 'IGNORE';    # connctl may have ended.
my $connctl = $ENV{CONNCTL};
my ($events, $requests, $lines, $select);
my ($last, @kept, %sockets, %ids, %numbers) = 0;    # sockets and ids by number, numbers by id

sub begin {
    my $pid = open2($events, $requests, $connctl, 'guard', '--stdin');
    $requests->autoflush;
    $select = IO::Select->new(\*STDIN, $events);
    $lines = '';
}

sub dial {
    my ($number, $address, $port, $is_guarded) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => $address, PeerPort => $port)
        or return print "failed $!\n";
    ($sockets{$number}, $ids{$number}) = ($socket, ++$last);
    $select->add($socket);
    printf "open %d %d\n", $number, $socket->fileno;
    # A loopback connection needs no guard.
    return if !$is_guarded || $socket->sockhost eq $socket->peerhost;
    # An id is never used again, because an event of its last connection may be in transit.
    $numbers{$last} = $number;
    printf $requests "+%d %s:%d %s:%d\n", $last, $address, $port, $socket->sockhost, $socket->sockport;
}

# Closes a connection. Without release, connctl goes on guarding it.
sub end {
    my ($number, $releases) = @_;
    my $socket = delete $sockets{$number};
    printf $requests "-%d\n", $ids{$number} if $releases;
    delete $numbers{delete $ids{$number}};
    $select->remove($socket);
    close $socket;
}

sub receive {
    my ($number) = @_;
    my $count = sysread $sockets{$number}, my $bytes, 4096;
    return print "echoed $number\n" if $count;
    my $error = defined $count ? 'EOF' : "$!";
    end($number, 1);
    print "ended $number $error\n";
}

sub report {
    my ($line) = @_;
    my ($id) = $line =~ /"id": (\d+)/ or return;
    my $number = $numbers{$id} // return;
    my ($severity) = $line =~ /"severity": "(\w+)"/;
    return print $line =~ /^\{"event": "error"/ ? "refused $number\n" : "path $number\n" if !$severity;
    my ($reason) = $line =~ /"reason": "(\w+)"/;
    print "$severity $number $reason\n";
    return if $severity ne 'destroy';
    end($number, 0);
    print "ended $number reset\n";
}

sub status {
    my $status = `$connctl status --json 2>/dev/null`;
    return print "absent\n" if $?;
    my ($category, $link) = $status =~ /"category": "(\w+)".*?"interface": "?(\w+)/;
    print "status $category $link\n";
}

sub run {
    my ($command, @words) = split ' ', shift;
    if ($command eq 'connect') { dial(@words, 1) }
    elsif ($command eq 'echo') { syswrite $sockets{$words[0]}, 'x' }
    elsif ($command eq 'close') { end($words[0], 1); print "closed $words[0]\n" }
    elsif ($command eq 'reuse') { end($words[0], 0); dial(@words, 0) }
    elsif ($command eq 'status') { status() }
    elsif ($command eq 'fork') {
        # The child has a connctl of its own, and ends with its parent.
        pipe my $reader, my $writer;
        return push @kept, $writer if fork;
        open STDIN, '<&', $reader;
        close $writer;
        %sockets = ();
        begin();
        dial(@words, 1);
    }
}

begin();
print "ready\n";
my $input = '';
while (1) {
    for my $handle ($select->can_read) {
        if ($handle == \*STDIN) {
            sysread STDIN, $input, 65536, length $input or exit;
            run($1) while $input =~ s/^(.*)\n//;
        } elsif ($handle == $events) {
            # Without connctl, nothing ends.
            sysread $events, $lines, 65536, length $lines or $select->remove($events);
            report($1) while $lines =~ s/^(.*)\n//;
        } elsif (my ($number) = grep { $sockets{$_} == $handle } keys %sockets) {
            receive($number);
        }
    }
}

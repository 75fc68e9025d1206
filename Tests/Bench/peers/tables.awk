# Prints the tables of delays from the lines of `measure`, in the order of their appearance, and
# `goals=yes` the ratios that decide. TITLE: what is in the first column, beside the count.
BEGIN {
    FS = "\t"
    changes = split("carrier lost,address removed,route changed", change, ",")
    floor = "the floor"
}
{
    if (!($1 in seen)) count[++counts] = $1
    seen[$1] = 1
    if (!(($1, $2) in known)) { known[$1, $2] = 1; name[$1, ++names[$1]] = $2 }
    p50[$1, $2, $3] = $4; p90[$1, $2, $3] = $5
}
function is_time(value) { return value != "" && value != "never" }
function times(n, subject, reference, what) {
    if (!is_time(p50[n, subject, what]) || !is_time(p50[n, reference, what]))
        return p50[n, subject, what] == "" ? "" : p50[n, subject, what] == "never" ? "never" : "–"
    return sprintf("%.1f ×", p50[n, subject, what] / p50[n, reference, what])
}
# Milliseconds: the median and, in parentheses, p90.
function milliseconds(value) { return sprintf(value < 10000 ? "%.2f" : "%.0f", value / 1000) }
function cell(n, subject, what,    one) {
    one = p50[n, subject, what]
    return is_time(one) ? milliseconds(one) " (" milliseconds(p90[n, subject, what]) ")" : one
}
function heading(first,    i) {
    printf "\n| %s |", first
    for (i = 1; i <= changes; i++) printf " %s |", change[i]
    printf "\n|---|"
    for (i = 1; i <= changes; i++) printf "---|"
    printf "\n"
}
function ratios(text, n, subject, reference,    i) {
    if (!((n, subject) in known) || !((n, reference) in known)) return
    printf "| %s |", text
    for (i = 1; i <= changes; i++) printf " %s |", times(n, subject, reference, change[i])
    printf "\n"
}
END {
    for (i = 1; i <= counts; i++) {
        n = count[i]
        heading(n == 1 ? title : title ", to the last of " n)
        for (j = 1; j <= names[n]; j++) {
            printf "| %s |", name[n, j]
            for (k = 1; k <= changes; k++) printf " %s |", cell(n, name[n, j], change[k])
            printf "\n"
        }
    }
    if (!goals) exit
    heading("ratio of p50")
    ratios("connd to a client on HTTP/2 ÷ the floor", 1, "connd, HTTP/2", floor)
    ratios("networkd to a client on D-Bus ÷ the floor", 1, "networkd, D-Bus", floor)
    ratios("`connctl watch --json` ÷ the floor", 1, "connd, `connctl watch --json`", floor)
    ratios("networkd as a line ÷ the floor", 1, "networkd, as a line", floor)
    ratios("`connctl watch --json` ÷ networkd as a line", 1, "connd, `connctl watch --json`", "networkd, as a line")
    n = count[counts]
    ratios("last of " n ": `connctl watch --json` ÷ the floor as a line", n, "connd, `connctl watch --json`", "the floor, as a line")
    ratios("last of " n ": `connctl watch --json` ÷ networkd as a line", n, "connd, `connctl watch --json`", "networkd, as a line")
}

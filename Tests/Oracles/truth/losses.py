"""Uplinks that lose packets silently: carrier, routes and neighbours stand (W1)."""

LIMPING = 10  # percent of loss from which a missing echo proves nothing
WHICH = ["", "", 'iifname "lan"', 'oifname "lan"']  # both directions, from the machine, to it


def losing(chance, uplink, percents):
    """Returns the commands that begin a loss, and those that end it."""
    values = {"kept": 100 - chance.choice(percents), "which": chance.choice(WHICH)}
    return ([["nft", router, "lose", values] for router in uplink.routers],
            [["nft", router, "lose nothing"] for router in uplink.routers])


class Losses:
    """The current losses of a world: percent, by router."""

    def __init__(self, uplinks):
        self.uplinks, self.percents = uplinks, {}

    def note(self, operation, refused):
        """Returns whether a loss has ended."""
        match operation:
            case ["nft", router, "lose", values]:
                if refused:
                    raise RuntimeError(f"nft refused to lose packets: {refused}")
                self.percents[router] = 100 - values["kept"]
            case ["nft", router, "lose nothing"]:
                return self.percents.pop(router, None) is not None
        return False

    def limping(self):
        return [uplink for uplink in self.uplinks
                if any(self.percents.get(router, 0) >= LIMPING for router in uplink.routers)]

    def may_concern(self, connection, find_link):
        """Whether a missing echo may be a loss. `find_link` returns the name of the link by which
        the connection leaves.
        """
        limping = self.limping()
        link = find_link() if limping else None
        return any(uplink.owns(connection.address) or link in (uplink.top, "vx0") for uplink in limping)

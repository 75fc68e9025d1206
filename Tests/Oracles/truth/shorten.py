"""Removes from a script what a finding does not need: steps, by delta debugging, and unrelated
connections.
"""


def shorten(script, finding, fails, tries):
    """Returns the shortest script found within the tries for which `fails` still holds."""
    left = tries

    def attempt(connections, steps):
        nonlocal left
        left -= 1
        shorter = script | {"topology": script["topology"] | {"connections": connections}, "steps": steps}
        return fails(shorter)

    steps, connections = script["steps"][:finding["step"] + 1], script["topology"]["connections"]
    # A finding follows from its step and from earlier ones; the other connections rarely matter.
    alone = [wanted if slot == finding["slot"] else None for slot, wanted in enumerate(connections)]
    if finding["slot"] is not None and attempt(alone, steps):
        connections = alone
    size = max(len(steps) // 2, 1)
    while left > 0 and len(steps) > 1:
        position = 0
        shrunk = False
        while left > 0 and position < len(steps):
            fewer = steps[:position] + steps[position + size:]
            if fewer and attempt(connections, fewer):
                steps, shrunk = fewer, True
            else:
                position += size
        if size == 1 and not shrunk:
            break
        size = max(size // 2, 1)
    return script | {"topology": script["topology"] | {"connections": connections}, "steps": steps}

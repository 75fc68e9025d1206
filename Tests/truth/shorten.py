"""Leaves out of a script what a finding does not need: steps, by delta debugging, and the connections that it is not about."""


def shorten(script, finding, fails, tries):
    """The shortest script found in so many tries in which `fails` still finds it."""
    left = tries

    def attempt(connections, steps):
        nonlocal left
        left -= 1
        shorter = script | {"topology": script["topology"] | {"connections": connections}, "steps": steps}
        return fails(shorter)

    steps, connections = script["steps"][:finding["step"] + 1], script["topology"]["connections"]
    # What is found follows from the step that it was found in, and from earlier ones; the others' connections rarely matter.
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

"""Scenarios: a protocol case as a file, read strictly (`format`) and run against the real parts (`runner`).

A case has `name`, `about`, `policy`, `clock`, `given` (one order or a list), `steps` and `expect`. Each step is one of

    event         actor, identity, payload, reason, reason_code, seen_version
    notice        body of a signed webhook; raw (other bytes), channel, signature (good, missing, wrong, old, future)
    repair        effect or promise, revision, to, request, reason_code, reason, seen_version (or "current"), actor
    deliver       per effect a list of scripted answers, and under lookup those to look-ups; runs the relay once
    timers        {}: fires what is due, and says notices that wait
    advance, at   move the clock
    together      steps started at one moment, each in a thread and connection of its own
    crash         point, effect: the next deliver or timers dies there
    forget_keys   {}: the provider drops its idempotency keys

and may carry `order`, `at`, `about` and `expect`. What can be expected, of a step as of the end, is in `expectations`.
"""

"""The whole product on one machine: `python -m console.demo`, which is `./run demo`.

Here live the supervisor of the processes and the traffic of pretended buyers; the servers are `console.embedded`'s,
the orders are made through the same doors as everywhere else.
"""

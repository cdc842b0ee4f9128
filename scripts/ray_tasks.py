"""What the scripts that run tidegate on a Ray cluster share: two options, and a task for each call of a function."""

import argparse


def parser_of(description):
    """A parser with the options that each of the scripts has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", default="tidegate", help="the program (default: tidegate on the PATH)")
    parser.add_argument("--address", help="a running Ray cluster (default: one on this machine)")
    return parser


def results(address, function, calls):
    """Runs `function` as a task for each tuple of arguments in `calls`; yields what it returns, first come first."""
    import ray

    ray.init(address=address, include_dashboard=False, log_to_driver=False)
    task = ray.remote(function)
    pending = [task.remote(*call) for call in calls]
    while pending:
        ready, pending = ray.wait(pending)
        yield ray.get(ready[0])
    ray.shutdown()

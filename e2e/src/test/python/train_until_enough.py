"""Trains as parameter_server.py beside it does, until there is a file `enough` in CHECKPOINT_DIR.

So a test decides when the training is over, however fast the machine is.
"""

import argparse
import os
import runpy
import time


class UntilEnough(argparse.Namespace):
    """Options that want another epoch whenever they are asked, and leave the processors to others before it."""

    @property
    def epochs(self):
        time.sleep(0.3)
        return 0 if os.path.exists(os.environ["CHECKPOINT_DIR"] + "/enough") else 1_000_000

    @epochs.setter
    def epochs(self, given):
        pass


parse_args = argparse.ArgumentParser.parse_args
argparse.ArgumentParser.parse_args = lambda parser: parse_args(parser, namespace=UntilEnough())
runpy.run_path("parameter_server.py", run_name="__main__")

import sys

from rnnbench.cli import main

sys.exit(main())

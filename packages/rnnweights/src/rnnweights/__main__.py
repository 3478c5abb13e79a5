import sys

from rnnweights.command import main

sys.exit(main())

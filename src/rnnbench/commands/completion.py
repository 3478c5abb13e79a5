"""Print a script that completes commands and experiments in bash and zsh.

For bash, add to ~/.bashrc:  source <(rnnbench completion)
For zsh, add to ~/.zshrc:    autoload bashcompinit && bashcompinit
                             source <(rnnbench completion)
"""

from __future__ import annotations

from collections.abc import Sequence

from rnnbench.commands import COMMANDS
from rnnbench.commands.arguments import command_parser

WITH_EXPERIMENT = ("run", "grid", "plan", "retry", "export", "pull", "bundle", "report")
SCRIPT = """\
_rnnbench() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{commands}" -- "$word"))
  elif [[ " {experiments} " == *" ${{COMP_WORDS[1]}} "* && "$word" != -* ]]; then
    COMPREPLY=($(compgen -W "$(ls conf/experiment 2>/dev/null | sed 's/\\.yaml$//')" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -F _rnnbench rnnbench
"""


def main(arguments: Sequence[str]) -> int:
    parser = command_parser("completion", __doc__)
    parser.parse_args(list(arguments))
    print(SCRIPT.format(commands=" ".join(COMMANDS), experiments=" ".join(WITH_EXPERIMENT)), end="")
    return 0

import type { CommandContext } from './context.ts';
import { ExitCode } from '../exit-code.ts';

/**
 * The hidden command that shells call for completions. Its arguments are the words of the line after the program's
 * name; the last one is at the cursor and may be empty. Each line of the output has a candidate and, after a tab, its
 * description.
 */
export const COMPLETE = '__complete';

// Bash breaks words at "=" and ":" and expects candidates for the last part only. If there are no candidates, bash
// offers files.
const BASH = `# fa-tui for bash: source <(fa-tui completion bash)
_fa_tui() {
  local line word
  COMPREPLY=()
  while IFS= read -r line; do
    word=\${line%%$'\\t'*}
    COMPREPLY+=("$word")
  done < <("$1" ${COMPLETE} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -o bashdefault -F _fa_tui fa-tui
`;

const ZSH = `#compdef fa-tui
# fa-tui for zsh: fa-tui completion zsh > "\${fpath[1]}/_fa-tui", or source <(fa-tui completion zsh)
_fa_tui() {
  local line
  local -a candidates
  while IFS= read -r line; do
    if [[ $line == *$'\\t'* ]]; then
      candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    else
      candidates+=("\${line//:/\\\\:}")
    fi
  done < <("\${words[1]}" ${COMPLETE} "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#candidates} )); then _describe 'fa-tui' candidates; else _files; fi
}
if [[ \${funcstack[1]} == _fa-tui ]]; then _fa_tui "$@"; else compdef _fa_tui fa-tui; fi
`;

const FISH = `# fa-tui for fish: fa-tui completion fish > ~/.config/fish/completions/fa-tui.fish
function __fa_tui_complete
    set -l before (commandline -opc)
    set -l found ($before[1] ${COMPLETE} $before[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c fa-tui -f -a '(__fa_tui_complete)'
`;

export const SHELLS = { bash: BASH, zsh: ZSH, fish: FISH } as const;

/** `fa-tui completion bash|zsh|fish`: prints the script that the shell has to source. */
export function completion(shell: string, context: CommandContext): ExitCode {
  context.surroundings.stdout.write(SHELLS[shell as keyof typeof SHELLS]);
  return ExitCode.PASSED;
}

#!/usr/bin/env bash
# Judges every kernel that the commits BASE..HEAD touch, as action.yml does: on this machine's emulator, then on the GPU
# host that FLASHCORE_GPU_RUNNER names. Prints GitHub's annotations and writes jobs, reports and comment.md to OUT.
#
#   check-kernels.sh [BASE [OUT]]     default: HEAD^1, which in a pull request's merge commit is its target; flashcore-ci
#
# Environment: FLASHCORE_PLAN, a plan of gates; FLASHCORE_ARGUMENTS, more options of fa-tui run, separated by blanks;
# FLASHCORE_SUITE, the comment's name; with GH_TOKEN, GITHUB_REPOSITORY and NUMBER the comment is posted or edited. Exit
# status: 0 all passed, 1 a check or gate failed, 2 bad usage, 3 a kernel could not be judged.
set -euo pipefail
base=${1:-HEAD^1}
out=${2:-flashcore-ci}
suite=${FLASHCORE_SUITE:-flashcore}
[ "$#" -le 2 ] || { echo "check-kernels.sh [BASE [OUT]]: must have at most two arguments, got $#" >&2; exit 2; }
git rev-parse --quiet --verify "$base^{commit}" > /dev/null || {
  echo "$base: must be a commit of this checkout; actions/checkout has it with fetch-depth: 2" >&2
  exit 2
}
cd "$(git rev-parse --show-toplevel)"
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "$out/emulator" "$out/gpu" "$out/comment.md" "$out/refused.txt"

# Escapes a text for a property or message of a workflow command, so that a name in a pull request cannot begin another
# command.
escaped() {
  local text=${1//'%'/%25}
  text=${text//$'\r'/%0D}
  text=${text//$'\n'/%0A}
  text=${text//:/%3A}
  printf %s "${text//,/%2C}"
}

# The folders with a kernel.yaml that contain changed files. The names are other people's, so they end with NUL and are
# never split into words.
touched() {
  local file folder
  while IFS= read -r -d '' file; do
    folder=$file
    while [[ $folder == */* ]]; do
      folder=${folder%/*}
      if [ -f "./$folder/kernel.yaml" ]; then
        printf '%s\0' "$folder"
        break
      fi
    done
  done < <(git diff --name-only -z --no-renames "$base" HEAD) | sort -zu
}

status=0
worse() { [ "$1" -le "$status" ] || status=$1; }

# judge PLACE FOLDER OPTION...: judges one kernel in one place.
judge() {
  local place=$1 folder=$2 code=0 number said
  shift 2
  mkdir -p "$out/$place"
  number=$(find "$out/$place" -name '*.json' | wc -l)
  local job="$out/$place/$number.json"
  # shellcheck disable=SC2086 # options, split at blanks
  fa-tui run "./$folder" ${FLASHCORE_PLAN:+--plan "$FLASHCORE_PLAN"} ${FLASHCORE_ARGUMENTS:-} "$@" --json --quiet \
    > "$job" 2> "$out/$place/$number.log" || code=$?
  [ "$code" -le 3 ] || code=3
  worse "$code"
  if [ -s "$job" ]; then
    echo "$(escaped "$folder"), $place: exit status $code"
    fa-tui report --from "$job" --format github --folder "$folder"
  else
    rm "$job"
    said=$(tail -c 2000 "$out/$place/$number.log")
    echo "::error file=$(escaped "$folder")/kernel.yaml,title=not judged ($place)::$(escaped "$said")"
    printf '    %s (%s): %s\n' "${folder//[$'\n\r']/?}" "$place" "${said//[$'\n\r']/ }" >> "$out/refused.txt"
  fi
}

# Creates the comment, or edits the existing one. The existing one is a bot's comment that begins with the marker,
# because anybody else can write the marker too.
comment() {
  local comments="repos/$GITHUB_REPOSITORY/issues" id
  id=$(gh api "$comments/$NUMBER/comments" --paginate --jq \
    ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$(head -n 1 "$out/comment.md")\"))) | .id" | head -n 1)
  if [ -n "$id" ]; then
    gh api --method PATCH "$comments/comments/$id" -F "body=@$out/comment.md" > /dev/null
  elif [ "${#folders[@]}" -gt 0 ]; then
    gh api --method POST "$comments/$NUMBER/comments" -F "body=@$out/comment.md" > /dev/null
  fi
}

folders=()
while IFS= read -r -d '' folder; do folders+=("$folder"); done < <(touched)
for folder in "${folders[@]}"; do judge emulator "$folder"; done
if [ -n "${FLASHCORE_GPU_RUNNER:-}" ]; then
  for folder in "${folders[@]}"; do judge gpu "$folder" --runner "$FLASHCORE_GPU_RUNNER" --start-runner; done
fi

jobs=()
while IFS= read -r -d '' job; do jobs+=("$job"); done < <(find "$out" -path '*/*.json' -print0 | sort -z)
if [ "${#jobs[@]}" -gt 0 ]; then
  fa-tui report --from "${jobs[@]}" --format pull-request --suite "$suite" -o "$out/comment.md"
else
  echo "<!-- flashcore:${suite//[^a-zA-Z0-9_.-]/-} -->" > "$out/comment.md"
fi
[ "${#folders[@]}" -gt 0 ] || printf '\nNo kernel is touched.\n' >> "$out/comment.md"
if [ -f "$out/refused.txt" ]; then
  { printf '\nNot judged:\n\n'; cat "$out/refused.txt"; } >> "$out/comment.md"
fi
echo "${#folders[@]} kernels touched, exit status $status"
if [ -n "${GH_TOKEN:-}" ] && [ -n "${NUMBER:-}" ]; then
  comment || echo "::notice title=no comment::The token may not write to this pull request, as in one from a fork"
fi
exit "$status"

#!/usr/bin/env bash
# A first-time user's path through fa-tui, from the start to a compared pair of kernels, on the emulator, in tmux.
#   bash test/e2e/first-steps.sh           plays it and prints each step; exits with 0 if everything was seen
#   ATTACH=1 bash test/e2e/first-steps.sh  pauses a second per step; watch with the command that it prints
# It waits for texts on the screen, never for a fixed time. Data goes into a temporary folder unless FLASHCORE_HOME is
# set.
set -euo pipefail
cd "$(dirname "$0")/../.."

home=${FLASHCORE_HOME:-$(mktemp -d)}
socket=first-steps-$$
limit_s=${LIMIT_S:-120}
tm() { tmux -L "$socket" -f /dev/null "$@"; }
screen() { tm capture-pane -p -t fa; }

end() {
  tm kill-server 2>/dev/null || true
  if [ -z "${FLASHCORE_HOME:-}" ]; then
    pid=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$home/runner.json" 2>/dev/null || true)
    if [ -n "$pid" ]; then kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done; fi
    rm -rf "$home"
  fi
}
trap end EXIT

# see PATTERN: waits until the screen matches.
see() {
  local deadline=$((SECONDS + limit_s))
  until screen | grep -Eq -- "$1"; do
    if [ $SECONDS -ge $deadline ]; then
      echo "not seen within $limit_s s: $1" >&2
      screen >&2
      exit 1
    fi
    sleep 0.05
  done
}

step() {
  echo "· $1"
  if [ -n "${ATTACH:-}" ]; then sleep 1; fi
}

press() { tm send-keys -t fa "$@"; }

# The text at the cursor, without the time since the kernel's last run.
cursor() { screen | grep -o '▸ [^│]*' | sed -E 's/ +([0-9]+ [a-z]+ ago|just now) *$//' || true; }

# until_seen PATTERN KEY: presses KEY until the screen has PATTERN, and after each press waits until the cursor has
# moved. Other changes of the screen do not count: on a busy machine they may come before the cursor moves, and pressing
# KEY then would move the cursor past its target.
until_seen() {
  local before
  for _ in $(seq 40); do
    if screen | grep -Eq -- "$1"; then return; fi
    before=$(cursor)
    press "$2"
    for _ in $(seq 250); do
      if screen | grep -Eq -- "$1"; then return; fi
      if [ "$(cursor)" != "$before" ]; then break; fi
      sleep 0.02
    done
  done
  see "$1"
}

# run_kernel ID: opens the kernel's form from view 7, and runs one small shape with one seed to its end.
run_kernel() {
  step "7 lists the kernels; $1"
  press 7
  see '\[7 Kernels\].*'
  press g
  see '▸ fa_v1_baseline '
  until_seen "▸ $1 " j
  step "Enter opens its form: one small shape, one seed, short samples"
  press Enter
  see "Run $1"
  until_seen '▸ shapes ' Down
  until_seen '▸ shapes .*1x4x128x64' Right
  until_seen '▸ seeds ' Down
  until_seen '▸ seeds .*← 1 →' Right
  until_seen '▸ seconds ' Down
  until_seen '▸ seconds .*← 0.2 →' Right
  step "Enter runs it: build, verify, benchmark, gates"
  press Enter
  see "\\[1 Run\\]"
  see "1 Run  $1"
  step "correctness, latency, gates and log stand on one screen"
  see '─ Gates'
  see 'Correctness +[01]/1 case'
  see 'Latency +1x4x128x64'
  see "job +passed: |✓ passed "
}

tm new-session -d -s fa -x 120 -y 40 "env FLASHCORE_HOME='$home' XDG_CONFIG_HOME='$home/config' XDG_STATE_HOME='$home/state' CI=0 node_modules/.bin/fa-tui; echo fa-tui ended with \$?; exec sh"
if [ -n "${ATTACH:-}" ]; then echo "look on: tmux -L $socket attach -r -t fa"; fi
step "fa-tui starts a runner of its own and says what to do"
see 'No job on this screen yet'
see 'connected'
run_kernel fa_v1_baseline
step "b pins it"
press b
see 'Pinned: fa_v1_baseline'
run_kernel fa_v2_wmma
step "2, 4, 5: its correctness, profile and gates"
press 2; see '\[2 Correct\]'; see '1x4x128x64'
press 4; see '\[4 Profile\]'; see 'Roofline|What to try next|Lines of'
press 5; see '\[5 Gates\]'; see 'Register|registers'
step "c compares it with the pinned job"
press c
see '\[3 Latency\]'
see 'pinned +fa_v1_baseline'
see 'shown +fa_v2_wmma'
see 'not compared: simulated'
step "d turns to what their builds need, then to the difference of their sources"
until_seen '\[figures\]' d
until_seen '\[source\]' d
step "q leaves; the runner goes on"
press q
see 'fa-tui ended with 0'
echo "all was seen"

#!/usr/bin/env bash
# Runs the overhead harness with the baselines and the peers that are set up, and prints its tables.
#   HARNESS=path/to/harness benchmarks/run.sh [phases]
# The harness is not part of this project; its README says how to set up peers. Phases: w1r w3 w3big w4 w5.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"
harness="${HARNESS:-$root/../shared/bench}"
if [ ! -x "$harness/run_all.sh" ] && [ ! -f "$harness/run_all.sh" ]; then
  echo "no harness at $harness: set HARNESS to the folder that holds run_all.sh" >&2
  exit 2
fi
export BENCH_WORK="${BENCH_WORK:-$root/.bench}"
export OWN=ziggurat BENCH_ADAPTERS="$here" OWN_PYTHON="$BENCH_WORK/venvs/ziggurat/bin/python" ROUNDS="${ROUNDS:-9}" W4REPS="${W4REPS:-9}"
command -v uv > /dev/null || "$root/.venv/bin/python" -m pip install -q --disable-pip-version-check uv
export PATH="$PATH:$root/.venv/bin"
if [ ! -x "$BENCH_WORK/venvs/floor/bin/python" ]; then
  bash "$harness/setup.sh" floor ${PEERS-agno agent_framework} server
fi
# our own column runs as a user installs it: the package with its dependencies, and nothing else
[ -x "$OWN_PYTHON" ] || uv venv -q --python "$root/.venv/bin/python" "$BENCH_WORK/venvs/ziggurat"
uv pip install -q --python "$OWN_PYTHON" --reinstall-package ziggurat "ziggurat[http] @ file://$root"
phases=("$@")
[ ${#phases[@]} -gt 0 ] || phases=(w1r w3 w3big w4 w5)
others=()
for phase in "${phases[@]}"; do [ "$phase" = w1r ] || others+=("$phase"); done
if [ ${#others[@]} -gt 0 ]; then
  bash "$harness/run_all.sh" "${others[@]}"
  export KEEP=1
fi
if [[ " ${phases[*]} " == *" w1r "* ]]; then  # the loop beside itself with layers, in the same interleaved rounds
  OWN="ziggurat ziggurat+taps ziggurat+guards" bash "$harness/run_all.sh" w1r
fi
cat "$BENCH_WORK/RESULTS_tables.md"
python3 "$here/differences.py" "$BENCH_WORK/results/results.jsonl"

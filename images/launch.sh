#!/bin/sh
# Starts the Python entry point that this file is named after, with the image's own libraries.
export PYTHONPATH="/opt/powertrain/lib${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
case "${0##*/}" in
    powertrain | kubectl-powertrain) exec python3 -m powertrain_cli "$@" ;;
    powertrain-agent) exec python3 -m powertrain_agent "$@" ;;
    powertrain-simtrain) exec python3 -m powertrain_agent.simtrain "$@" ;;
    powertrain-operator) exec python3 -m powertrain_operator.main "$@" ;;
    powertrain-uninstall) exec python3 -m powertrain_operator.uninstall "$@" ;;
    powertrain-train) exec python3 "$@" ;;
    powertrain-gate) exec python3 -m powertrain_sdk.gate "$@" ;;
    *) echo "launch.sh: unknown name ${0##*/}" >&2; exit 2 ;;
esac

# To be sourced with $root set: sets $python to a Python 3.11, or reports that there is none.
python=$root/.venv/bin/python
if [ ! -x "$python" ] || [ ! -e "$root/.venv/tools.stamp" ]; then
    python=
    for candidate in ${BALLAST_PYTHON:-python3.11 python3}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            python=$candidate
            break
        fi
    done
fi
if [ -z "$python" ]; then
    echo "setup: no Python 3.11 found: run 'apt-get install python3.11 python3.11-venv' or set BALLAST_PYTHON" >&2
    exit 1
fi
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}

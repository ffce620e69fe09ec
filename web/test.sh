#!/usr/bin/env bash
# Checks that the bundle inside the package is what web/ builds, byte for byte, and that there is a browser for the tests.
# What cannot be checked here is said in one line; where CI=true that is a failure.
set -euo pipefail
cd "$(dirname "$0")"

skipped() {
  echo "skipped: $1"
  if [ "${CI:-}" = true ]; then
    echo "CI=true: nothing may be skipped" >&2
    exit 1
  fi
}

if command -v npm >/dev/null; then
  npm ci --silent --no-audit --no-fund
  built="$(mktemp -d)"
  trap 'rm -rf "$built"' EXIT
  npm run --silent build -- --outDir "$built" --logLevel warn
  diff -r "$built" ../src/veracity/report/interactive/bundle ||
    { echo "The bundle in the package is not what web/ builds: run 'npm ci && npm run build' in web/ and commit the result." >&2; exit 1; }
else
  skipped "npm is not here, so the bundle of the interface was not built again and compared"
fi

if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium >/dev/null
fi
command -v chromium >/dev/null || skipped "Chromium is not here, so the interface is not tried in a browser"

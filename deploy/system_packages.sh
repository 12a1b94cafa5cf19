#!/usr/bin/env bash
# Install the Debian packages that tests need, as root; without root say which tests will be skipped. Arguments: other packages.
set -euo pipefail

wanted=("$@")
if [ $# -eq 0 ]; then
  command -v java >/dev/null || wanted+=(openjdk-17-jre-headless)
  command -v mvn >/dev/null || wanted+=(maven)
  command -v cc >/dev/null || wanted+=(gcc libc6-dev)
  command -v curl >/dev/null || wanted+=(curl)
  command -v systemd-analyze >/dev/null || wanted+=(systemd)
  command -v slurmctld >/dev/null || wanted+=(slurmctld slurmd slurmrestd slurm-client munge slurm-wlm-jwt-plugin)
  command -v slurmdbd >/dev/null || wanted+=(slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core)
fi
[ ${#wanted[@]} -gt 0 ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "not root: ${wanted[*]} not installed; tests that need them are skipped and say so" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${wanted[@]}"

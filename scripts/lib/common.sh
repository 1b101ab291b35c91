# shellcheck shell=bash
# Shared functions: messages, and installation of missing packages.

# Programs such as mke2fs are not in the PATH of an ordinary user.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export PATH

say() { printf '\n==> %s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# The apt configuration, and the file that names the release.
etc_apt=/etc/apt
os_release=/etc/os-release

missing_packages=()

# need COMMAND PACKAGE: records the package as missing unless the command exists.
need() {
  have "$1" || missing_packages+=("$2")
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

# Whether apt has no package lists, as in a fresh container.
apt_lists_empty() {
  [ -z "$(find /var/lib/apt/lists -maxdepth 1 -type f -name '*Packages*' -print -quit 2>/dev/null)" ]
}

# Installs the packages recorded by `need`. Without root and sudo it prints the command to run, and stops.
install_missing() {
  if [ "${#missing_packages[@]}" -eq 0 ] && ! apt_lists_empty; then
    echo "all installed"
    return
  fi
  may_install
  if apt_lists_empty; then
    echo "fetching the package lists"
    apt_get update
  fi
  [ "${#missing_packages[@]}" -gt 0 ] || return 0
  echo "installing: ${missing_packages[*]}"
  # Old lists name packages that no longer exist: update once and try again.
  install_beside "${missing_packages[@]}" ||
    { apt_get update && install_beside "${missing_packages[@]}"; } ||
    install_from_backports "${missing_packages[@]}" ||
    fail "these packages cannot be installed without removing others: ${missing_packages[*]}
  Nothing was removed. To see the conflicts, run
    apt-get install --simulate --no-install-recommends ${missing_packages[*]}
  then install them from the source of your installed packages (apt-cache policy qemu-utils), and run this script
  again."
  missing_packages=()
}

# Stops unless packages can be installed. Asks for the sudo password now, if one is needed.
may_install() {
  have apt-get || fail "this script installs packages with apt-get; please install: ${missing_packages[*]}"
  local line="apt-get update && apt-get install --no-install-recommends ${missing_packages[*]}"
  [ "${#missing_packages[@]}" -gt 0 ] || line="apt-get update"
  [ "$(id -u)" -ne 0 ] || return 0
  have sudo || fail "packages are missing and sudo is not installed. As root, run:
    $line"
  sudo -v
}

# Installs packages without removing any that conflict.
install_beside() {
  apt_get install --no-remove --no-install-recommends "$@"
}

# Installs packages from the distribution's backports: a QEMU from there needs its other packages from there too. The
# backports source is added only temporarily, with the address of the configured sources.
install_from_backports() {
  local codename lists="$etc_apt/sources.list.d/agentiso-backports.sources" status=0
  # shellcheck source=/dev/null
  codename="$(. "$os_release" && printf '%s' "${VERSION_CODENAME:-}")"
  [ -n "$codename" ] || return 1
  local uris key
  uris="$(apt_uris "$codename")"
  [ -n "$uris" ] || return 1
  key="$(apt_key "$codename")"
  echo "trying $codename-backports, which the installed packages may come from"
  printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\n%s' "$uris" "$codename" "${key:+Signed-By: $key
}" | as_root tee "$lists" >/dev/null || return 1
  { apt_get update && apt_get install -t "$codename-backports" --no-remove --no-install-recommends "$@"; } || status=1
  as_root rm -f "$lists"
  apt_get update >/dev/null || true
  return "$status"
}

# apt_uris CODENAME: the address of the packages of this release, from both formats of source lists.
apt_uris() {
  { cat "$etc_apt"/sources.list "$etc_apt"/sources.list.d/*.list 2>/dev/null || true; } |
    sed -E -n 's/^deb (\[[^]]*\] )?([^ ]+) '"$1"' .*/\2/p' | head -n 1 | grep . && return
  { cat "$etc_apt"/sources.list.d/*.sources 2>/dev/null || true; } |
    awk -v RS= -v name="$1" '{ uri = ""; meant = 0
      for (i = 1; i <= NF; i++) { if ($i == "URIs:") uri = $(i + 1); if ($i == name) meant = 1 }
      if (meant && uri) { print uri; exit } }'
}

# apt_key CODENAME: the keyring that signs the source of this release, if it names one.
apt_key() {
  { cat "$etc_apt"/sources.list.d/*.sources 2>/dev/null || true; } |
    awk -v RS= -v name="$1" '{ key = ""; meant = 0
      for (i = 1; i <= NF; i++) { if ($i == "Signed-By:") key = $(i + 1); if ($i == name) meant = 1 }
      if (meant && key) { print key; exit } }'
}

# The packages needed to build agentiso.
need_compiler() {
  have cc || missing_packages+=(gcc libc6-dev)
}

# Builds agentiso in the profile that compiles fastest, and sets `built` to the program.
build_quickly() {
  cargo build --profile quick --locked --bin agentiso --bin avfs
  built="${CARGO_TARGET_DIR:-$PWD/target}/quick/agentiso"
}

# The packages needed to run agentiso.
need_product_packages() {
  need qemu-system-x86_64 qemu-system-x86
  need mke2fs e2fsprogs
  need mmdebstrap mmdebstrap
  [ -e /etc/ssl/certs/ca-certificates.crt ] || missing_packages+=(ca-certificates)
  # The network back end "bridge" is for those who ask for it.
  if [ "${AGENTISO_NETWORK_BACKEND:-}" = bridge ]; then
    need nft nftables
    need pasta passt
  fi
  # An ordinary user builds images in a user namespace with a range of ids.
  [ "$(id -u)" -eq 0 ] || need newuidmap uidmap
}

# An ordinary user builds images in a user namespace, which needs a range of user and group ids.
need_ids() {
  local user first line
  user="$(id -un)"
  if [ "$(id -u)" -eq 0 ] || { grep -qs "^$user:" /etc/subuid && grep -qs "^$user:" /etc/subgid; }; then
    return
  fi
  first="$(cat /etc/subuid /etc/subgid 2>/dev/null |
    awk -F: 'BEGIN { free = 100000 } $2 + $3 > free { free = $2 + $3 } END { print free }')"
  line="usermod --add-subuids $first-$((first + 65535)) --add-subgids $first-$((first + 65535)) $user"
  have sudo || fail "$user has no range of subordinate user and group ids, and sudo is not installed. As root, run:
    $line"
  echo "giving $user a range of user and group ids: $line"
  # shellcheck disable=SC2086
  as_root $line
}

need_rust() {
  have cargo || fail "cargo was not found: install a Rust toolchain (version 1.95 or newer) first"
}

# A directory that QEMU can access: as root it runs as nobody, who cannot enter root's own directories.
reachable() {
  mkdir -p "$1"
  if [ "$(id -u)" -ne 0 ] || setpriv --reuid nobody --regid nogroup --clear-groups test -x "$1"; then
    printf '%s' "$1"
  else
    printf '/var/tmp/agentiso-test%s' "$(printf '%s' "$1" | tr -c 'A-Za-z0-9\n' -)"
  fi
}

# Formats seconds as "1 min 5 s".
spell_seconds() {
  if [ "$1" -ge 60 ]; then printf '%d min %d s' $(($1 / 60)) $(($1 % 60)); else printf '%d s' "$1"; fi
}

# shellcheck shell=bash
# Building the test host: a Debian whose virtual processor has SVM, so that it has a /dev/kvm of its own, with ZFS and
# a second QEMU; and the QEMU that emulates it.
# Each step keeps the hash of what it was made by: a step whose recipe has changed is made anew, with what needs it.
# $host is the directory all of it is made in.
: "${host:=}"

# Recommends are left out. The kernel has ext4 and NVMe built in, so it boots without an initrd.
readonly HOST_PACKAGES=systemd,systemd-sysv,libpam-systemd,udev,dbus,kmod,linux-image-cloud-amd64,qemu-system-x86,e2fsprogs,xfsprogs,zfsutils-linux,procps,iproute2,git,ca-certificates
# ZFS comes as source; the headers' version is that of the kernel in the host.
readonly MODULE_PACKAGES=build-essential,kmod,linux-headers-cloud-amd64,zfs-dkms
readonly EMULATOR_PACKAGES=build-essential,ninja-build,pkg-config,python3-venv,libglib2.0-dev,libfdt-dev,zlib1g-dev
readonly HOST_DISK_SIZE=24G

# The suite this system is of, and its own package sources for it.
suite() {
  # shellcheck source=/dev/null
  (. /etc/os-release && [ "$ID" = debian ] && printf '%s' "$VERSION_CODENAME") ||
    fail "the test host is built from the packages of this system, which must be a Debian"
}

# package_sources COMPONENTS: one line for each of Debian's repositories that apt uses here, and one for newer
# versions, which are installed only when asked for.
package_sources() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v suite="$(suite)" -v components="$1" \
      '$1 == "Debian" && index($3, suite) == 1 && !seen[$2 $3]++ {
         print "deb", $2, $3, components
         if ($3 == suite && !seen[$2 $3 "-backports"]++) print "deb", $2, $3 "-backports", components
       }'
}

# bootstrap PACKAGES HOOK: a root file system for the time the hook runs, which is given its path.
bootstrap() {
  package_sources "main contrib" >"$host/sources.list"
  [ -s "$host/sources.list" ] || fail "apt knows no package sources of Debian: run apt-get update"
  mmdebstrap --variant=minbase --include="$1" --aptopt='APT::Install-Recommends "false"' \
    --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook="$2" "$(suite)" /dev/null "$host/sources.list" 2>&1 |
    tee "$host/build.log" | sed -un 's/^I: \(running apt\|downloading\|extracting\|installing.*\)/  \1/p' ||
    fail "the packages could not be put together:
$(tail -n 20 "$host/build.log")"
}

# step NAME FILE...: runs make_NAME once; what it made is there from then on, unless one of the files, or this one, has
# changed. A file is one of scripts/nested, or the mark of a step before.
step() {
  local name="$1" start=$SECONDS hash
  shift
  hash="$(cd scripts/nested && cat host.sh "$@" | sha256sum)"
  if [ "$(cat "$host/$name.done" 2>/dev/null)" = "$hash" ]; then
    echo "$name: there already"
    return
  fi
  echo "$name"
  rm -f "$host/$name.done"
  "make_$name"
  printf '%s\n' "$hash" >"$host/$name.done"
  echo "$name: made in $(spell_seconds $((SECONDS - start)))"
}

make_modules() {
  bootstrap "$MODULE_PACKAGES" "$PWD/scripts/nested/host-modules \"\$1\" $host"
}

make_emulator() {
  bootstrap "$EMULATOR_PACKAGES" "$PWD/scripts/nested/host-emulator \"\$1\" $host $(suite)-backports"
}

make_disk() {
  rm -f "$host"/disk.img "$host"/vmlinuz
  # The hook runs where files have the owners they are to have, whoever builds.
  bootstrap "$HOST_PACKAGES" "$PWD/scripts/nested/host-files \"\$1\" $host $HOST_DISK_SIZE $(suite)-backports"
}

# build_host: makes what is missing of it, in $host.
build_host() {
  mkdir -p "$host"
  step modules host-modules
  step emulator host-emulator emulator.patch
  step disk host-files host.service "$host/modules.done"
}

# shellcheck shell=bash
# Builds the test host (a Debian system with ZFS and a second QEMU) and the QEMU that emulates it. The emulated CPU has
# SVM, so the test host has its own /dev/kvm. Each step records a hash of its inputs: a step whose inputs have changed is
# repeated, and so are the steps that depend on it. $host is the directory for everything that is built.
: "${host:=}"

# Recommends are omitted. The kernel has ext4 and NVMe built in, so it boots without an initrd.
readonly HOST_PACKAGES=systemd,systemd-sysv,libpam-systemd,udev,dbus,kmod,linux-image-cloud-amd64,qemu-system-x86,e2fsprogs,xfsprogs,zfsutils-linux,procps,iproute2,git,ca-certificates
# ZFS is distributed as source; the headers must match the kernel of the host.
readonly MODULE_PACKAGES=build-essential,kmod,linux-headers-cloud-amd64,zfs-dkms
readonly EMULATOR_PACKAGES=build-essential,ninja-build,pkg-config,python3-venv,libglib2.0-dev,libfdt-dev,zlib1g-dev
readonly HOST_DISK_SIZE=24G

# The Debian release of this system.
suite() {
  # shellcheck source=/dev/null
  (. /etc/os-release && [ "$ID" = debian ] && printf '%s' "$VERSION_CODENAME") ||
    fail "the test host is built from the packages of this system, which must be a Debian"
}

# package_sources COMPONENTS: one line for each Debian repository that apt uses here, and one for backports, whose
# packages are installed only on request.
package_sources() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v suite="$(suite)" -v components="$1" \
      '$1 == "Debian" && index($3, suite) == 1 && !seen[$2 $3]++ {
         print "deb", $2, $3, components
         if ($3 == suite && !seen[$2 $3 "-backports"]++) print "deb", $2, $3 "-backports", components
       }'
}

# bootstrap PACKAGES HOOK: creates a temporary root file system and calls the hook with its path.
bootstrap() {
  package_sources "main contrib" >"$host/sources.list"
  [ -s "$host/sources.list" ] || fail "apt knows no package sources of Debian: run apt-get update"
  mmdebstrap --variant=minbase --include="$1" --aptopt='APT::Install-Recommends "false"' \
    --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook="$2" "$(suite)" /dev/null "$host/sources.list" 2>&1 |
    tee "$host/build.log" | sed -un 's/^I: \(running apt\|downloading\|extracting\|installing.*\)/  \1/p' ||
    fail "the root file system could not be built:
$(tail -n 20 "$host/build.log")"
}

# step NAME FILE...: runs make_NAME unless it has already run with the same inputs: the files, and this one. A file is
# either in scripts/nested or the mark of an earlier step.
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
  # In the hook, files have their final owners, even if an ordinary user runs this script.
  bootstrap "$HOST_PACKAGES" "$PWD/scripts/nested/host-files \"\$1\" $host $HOST_DISK_SIZE $(suite)-backports"
}

# build_host: builds what is missing in $host.
build_host() {
  mkdir -p "$host"
  step modules host-modules
  step emulator host-emulator emulator.patch
  step disk host-files host.service "$host/modules.done"
}

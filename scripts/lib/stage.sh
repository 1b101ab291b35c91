# shellcheck shell=bash
# Lays out the files of an installation below a directory, as below a prefix. `scripts/install` installs such a tree,
# `scripts/package` packs it.

# The version in Cargo.toml.
agentiso_version() {
  sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml
}

# stage BINARY DIRECTORY: the program and the avfs beside it, manual pages, completions, systemd units, documentation.
stage() {
  local binary="$1" tree="$2" file program
  install -D -m 755 "$binary" "$tree/bin/agentiso"
  install -m 755 "$(dirname "$binary")/avfs" "$tree/bin/avfs"
  strip --strip-unneeded "$tree/bin/agentiso" "$tree/bin/avfs" 2>/dev/null || true
  mkdir -p "$tree"/share/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
  for program in agentiso avfs; do
    "$tree/bin/$program" man "$tree/share/man/man1" >/dev/null
    "$tree/bin/$program" completions bash >"$tree/share/bash-completion/completions/$program"
    "$tree/bin/$program" completions zsh >"$tree/share/zsh/site-functions/_$program"
    "$tree/bin/$program" completions fish >"$tree/share/fish/vendor_completions.d/$program.fish"
  done
  for file in service socket; do
    install -D -m 644 "deploy/agentiso.$file" "$tree/lib/systemd/system/agentiso.$file"
    install -D -m 644 "deploy/agentiso-user.$file" "$tree/lib/systemd/user/agentiso.$file"
  done
  install -D -m 644 -t "$tree/share/doc/agentiso" README.md CHANGELOG.md LICENSE
  mkdir "$tree/share/doc/agentiso/docs"
  cp -r --no-preserve=mode,ownership docs/. "$tree/share/doc/agentiso/docs/"
}

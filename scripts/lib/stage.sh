# shellcheck shell=bash
# Lays out the files of an installation below a directory, as below a prefix. `scripts/install` installs such a tree,
# `scripts/package` packs it.

# The version in Cargo.toml.
agentiso_version() {
  sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml
}

# stage BINARY DIRECTORY: the program, manual pages, completions, systemd units and documentation.
stage() {
  local binary="$1" tree="$2" file
  install -D -m 755 "$binary" "$tree/bin/agentiso"
  # The other program of the same build.
  install -D -m 755 "$(dirname "$binary")/avfs" "$tree/bin/avfs"
  strip --strip-unneeded "$tree/bin/agentiso" "$tree/bin/avfs" 2>/dev/null || true
  mkdir -p "$tree"/share/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
  "$tree/bin/agentiso" man "$tree/share/man/man1" >/dev/null
  "$tree/bin/agentiso" completions bash >"$tree/share/bash-completion/completions/agentiso"
  "$tree/bin/agentiso" completions zsh >"$tree/share/zsh/site-functions/_agentiso"
  "$tree/bin/agentiso" completions fish >"$tree/share/fish/vendor_completions.d/agentiso.fish"
  "$tree/bin/avfs" completions bash >"$tree/share/bash-completion/completions/avfs"
  "$tree/bin/avfs" completions zsh >"$tree/share/zsh/site-functions/_avfs"
  "$tree/bin/avfs" completions fish >"$tree/share/fish/vendor_completions.d/avfs.fish"
  for file in service socket; do
    install -D -m 644 "deploy/agentiso.$file" "$tree/lib/systemd/system/agentiso.$file"
    install -D -m 644 "deploy/agentiso-user.$file" "$tree/lib/systemd/user/agentiso.$file"
  done
  install -D -m 644 -t "$tree/share/doc/agentiso" README.md CHANGELOG.md LICENSE
  install -D -m 644 -t "$tree/share/doc/agentiso/docs" docs/*.*
  install -D -m 644 -t "$tree/share/doc/agentiso/docs/schemas" docs/schemas/*
}

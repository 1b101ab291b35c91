//! Containers: what they share with the host, and what runs in them.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::judged::Judged;
use super::state::{Arg, UNKNOWN, Walk};

impl Walk<'_> {
    /// `docker run`, `docker exec`, `kubectl exec` and the like.
    pub(super) fn container(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options_first();
        judged.add(call.found.entry().effect.and(options.adds), format!("{} with a container", call.name));
        for (name, _, value) in &options.values {
            match *name {
                "-v" | "--mount" => self.mounted(value, judged),
                "--network" | "--pid" | "--ipc" | "--uts" | "--userns" | "--cgroupns"
                    if value == "host" || value.starts_with("container:") =>
                {
                    judged.add(Categories::HOST_ESCAPE_RISK, format!("{name} {value} shares the host's"));
                }
                "--security-opt" if value.contains("unconfined") || value.contains("disable") => {
                    judged.add(Categories::HOST_ESCAPE_RISK, "the container is not confined");
                }
                "--env-file" | "--cidfile" => self.judge_path(value, false, judged),
                _ => {}
            }
        }
        let mut rest: Vec<Arg> = options.positional.iter().map(|index| call.args[*index].clone()).collect();
        if rest.is_empty() {
            return Ok(());
        }
        // The image, container or pod.
        rest.remove(0);
        let separator = rest.iter().position(|arg| arg.text == "--");
        if call.name == "kubectl" || call.name == "oc" {
            let flags: Vec<&str> =
                rest.iter().take(separator.unwrap_or(rest.len())).map(|arg| arg.text.as_str()).collect();
            if flags.iter().any(|flag| flag.starts_with('-') && !flag.starts_with("--") && flag.contains('t'))
            {
                judged.add(Categories::INTERACTIVE, "wants a terminal");
            }
        }
        if let Some(index) = separator {
            rest.drain(..=index);
        }
        if !rest.is_empty() {
            let streams = call.streams.clone();
            self.elsewhere(false, |walk| walk.command(&rest, &streams))?;
        }
        Ok(())
    }

    /// A volume: a named one is the container's own, everything else is a directory of the host.
    fn mounted(&mut self, value: &str, judged: &mut Judged) {
        let is_bind = value.starts_with(['/', '.', '~', UNKNOWN]) && value.contains(':');
        let is_mount = value.contains("type=bind") || value.contains("src=/") || value.contains("source=/");
        if is_bind || is_mount {
            judged.add(
                Categories::HOST_ESCAPE_RISK,
                format!("{value} gives the container a directory of the host"),
            );
        }
    }
}

//! Which function stands behind a handler of the tables.

use super::super::Categories;
use super::super::shell::Excess;
use super::super::tools::Handler;
use super::call::Call;
use super::judged::Judged;
use super::state::{Output, Walk};

impl Walk<'_> {
    pub(super) fn handle(
        &mut self,
        handler: Handler,
        call: &Call<'_>,
        judged: &mut Judged,
    ) -> Result<Output, Excess> {
        match handler {
            Handler::Wrap(skipped) => return self.wrapper(call, skipped, judged),
            Handler::Xargs => self.xargs(call, judged)?,
            Handler::Echo => return Ok(self.echo(call, judged)),
            Handler::Printf => return Ok(self.printf(call, judged)),
            Handler::Cat => return self.cat(call, judged),
            Handler::Base64 => return self.base64(call, judged),
            Handler::Decode => return self.decode(call, judged),
            Handler::Reverse => return self.reverse(call, judged),
            Handler::Translate => return Ok(self.translate(call, judged)),
            Handler::Dirname => return Ok(self.dirname(call, judged)),
            Handler::Which => return Ok(self.which(call, judged)),
            Handler::Pwd => return Ok(Output::known(self.state.cwd.clone())),
            Handler::Shell => self.shell(call, judged)?,
            Handler::Eval => self.eval(call, judged)?,
            Handler::Source => self.source(call, judged)?,
            Handler::Cd => self.cd(call, judged),
            Handler::Declare => self.declare(call, judged)?,
            Handler::Positional => self.positional_parameters(call, judged),
            Handler::Alias => self.alias(call, judged),
            Handler::Trap => self.trap(call, judged)?,
            Handler::Ask => self.ask(call, judged)?,
            Handler::Find => self.find_files(call, judged)?,
            Handler::FindSimple => self.find_simple(call, judged)?,
            Handler::Editor => self.editor(call, judged)?,
            Handler::Archive => self.archive(call, judged)?,
            Handler::Copy => self.copy(call, judged)?,
            Handler::Mount => self.mount(call, judged)?,
            Handler::Later => self.later(call, judged)?,
            Handler::Keygen => self.keygen(call, judged)?,
            Handler::Local => self.local(call, judged)?,
            Handler::Cmake => self.cmake(call, judged)?,
            Handler::Interpreter => self.interpreter(call, judged)?,
            Handler::Pager => self.pager(call, judged)?,
            Handler::Database => self.database(call, judged)?,
            Handler::Cloud => self.cloud(call, judged)?,
            Handler::Remote => self.remote(call, judged)?,
            Handler::Ssh => self.ssh(call, judged)?,
            Handler::Curl => self.curl(call, judged)?,
            Handler::Dd => self.dd(call, judged),
            Handler::Tar => self.tar(call, judged)?,
            Handler::Container => self.container(call, judged)?,
            Handler::Make => self.make(call, judged)?,
            Handler::Git => self.git(call, judged)?,
            Handler::Scripts => self.scripts(call, judged)?,
            Handler::Multicall => return self.multicall(call, judged),
        }
        Ok(Output::default())
    }

    /// A program that shows its output page by page, if that is a terminal.
    fn pager(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        self.by_table(call, judged)?;
        // `less '+!command' FILE`.
        for arg in call.args.iter().filter(|arg| arg.text.starts_with('+')) {
            self.editor_command(&arg.text, judged)?;
        }
        // `man -k` only lists.
        if call.options().is_harmless() {
            return Ok(());
        }
        match call.streams.captured {
            true => self.pager_waits = true,
            false => judged.add(Categories::INTERACTIVE, format!("{} wants a terminal", call.name)),
        }
        Ok(())
    }

    /// `busybox rm x` is `rm x`.
    fn multicall(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<Output, Excess> {
        match call.args.is_empty() {
            true => {
                judged.add(Categories::READ_ONLY, "prints its help");
                Ok(Output::default())
            }
            false => self.deeper(|walk| walk.program(call.args, call.streams)),
        }
    }
}

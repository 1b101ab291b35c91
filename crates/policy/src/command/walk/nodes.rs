//! Lists, pipelines and compound commands.

use std::rc::Rc;

use super::super::Categories;
use super::super::shell::{Excess, List, Node, Redirect, Word};
use super::judged::Judged;
use super::state::{Input, Output, Streams, UNKNOWN, Walk};

impl Walk<'_> {
    pub(super) fn list(&mut self, list: &List, streams: &Streams) -> Result<Output, Excess> {
        let mut last = Output::default();
        for node in list {
            last = self.node(node, streams)?;
        }
        // What several commands print together is not followed.
        let hidden = last.hidden;
        Ok(if list.len() == 1 { last } else { Output { text: None, hidden } })
    }

    fn node(&mut self, node: &Node, streams: &Streams) -> Result<Output, Excess> {
        self.step()?;
        match node {
            Node::Simple(simple) => self.simple(simple, streams),
            Node::Pipeline(commands) => self.pipeline(commands, streams),
            Node::Group { body, subshell, redirects } => {
                let streams = self.group_streams(redirects, streams)?;
                match subshell {
                    true => self.subshell(|walk| walk.list(body, &streams)),
                    false => self.deeper(|walk| walk.list(body, &streams)),
                }
            }
            Node::For { name, words, body, asks, redirects } => {
                let streams = self.group_streams(redirects, streams)?;
                if *asks {
                    let mut judged = Judged::default();
                    judged.add(Categories::INTERACTIVE, "select asks the terminal");
                    self.record(judged.step("select"));
                }
                self.for_loop(name, words, body, &streams)
            }
            Node::Case { words, body, redirects } => {
                self.words_only(words)?;
                let streams = self.group_streams(redirects, streams)?;
                self.deeper(|walk| walk.list(body, &streams))
            }
            Node::Function { name, body } => {
                // It is defined in order to be called: what it does counts from here, with unknown arguments.
                let state = self.state.clone();
                self.state.positional = vec![UNKNOWN.to_string(); 9];
                self.deeper(|walk| walk.list(body, streams))?;
                self.state = state;
                if calls_itself(name, body) {
                    let mut judged = Judged::default();
                    judged.add(Categories::DESTRUCTIVE, "the function starts itself again and again");
                    self.record(judged.step(name));
                }
                self.state.functions.retain(|(known, _)| known != name);
                self.state.functions.push((name.clone(), Rc::clone(body)));
                Ok(Output::default())
            }
            Node::Test { words, redirects } => {
                self.condition(words)?;
                self.group_streams(redirects, streams)?;
                Ok(Output::default())
            }
        }
    }

    /// Expands words for the commands in them.
    fn words_only(&mut self, words: &[Word]) -> Result<(), Excess> {
        for word in words {
            self.fields(word)?;
        }
        Ok(())
    }

    /// `[[ -f path ]]` looks at the path.
    fn condition(&mut self, words: &[Word]) -> Result<(), Excess> {
        let mut judged = Judged::default();
        let mut asks = false;
        for word in words {
            for arg in self.fields(word)? {
                self.subscripts(&arg.text)?;
                if asks {
                    self.judge_path(&arg.text, false, &mut judged);
                }
                asks = arg.text.len() == 2
                    && arg.text.starts_with('-')
                    && !matches!(arg.text.as_str(), "-z" | "-n" | "-v" | "-o" | "-a")
                    || matches!(arg.text.as_str(), "-nt" | "-ot" | "-ef");
            }
        }
        self.record(judged.step("condition"));
        Ok(())
    }

    /// The streams inside a group with redirections.
    fn group_streams(&mut self, redirects: &[Redirect], outer: &Streams) -> Result<Streams, Excess> {
        if redirects.is_empty() {
            return Ok(outer.clone());
        }
        let mut judged = Judged::default();
        let streams = self.redirected(redirects, outer, &mut judged)?;
        self.record(judged.step("redirection of a group"));
        Ok(streams)
    }

    fn pipeline(&mut self, commands: &[Node], streams: &Streams) -> Result<Output, Excess> {
        let mut input = streams.input.clone();
        let mut waits = false;
        self.drafts.clear();
        let mut output = Output::default();
        for (index, command) in commands.iter().enumerate() {
            let is_last = index + 1 == commands.len();
            let own = Streams { input, captured: streams.captured || !is_last, saved: false };
            let before = self.found;
            self.found = Categories::READ_ONLY;
            self.pager_waits = false;
            output = self.subshell(|walk| walk.node(command, &own))?;
            let risk = self.found;
            self.found.add(before);
            if waits && !risk.is_read_only() {
                let mut judged = Judged::default();
                judged.add(Categories::INTERACTIVE, "a pager whose output goes to a command with risks");
                self.record(judged.step("|"));
                waits = false;
            }
            waits |= self.pager_waits && !is_last;
            input = std::mem::take(&mut output).into_input();
            if is_last {
                output = match input {
                    Input::Text(text) => Output::known(text),
                    Input::Unknown { hidden } => Output { text: None, hidden },
                    Input::Terminal => Output::default(),
                };
                break;
            }
        }
        Ok(output)
    }

    fn for_loop(
        &mut self,
        name: &str,
        words: &[Word],
        body: &List,
        streams: &Streams,
    ) -> Result<Output, Excess> {
        let mut values = Vec::new();
        for word in words {
            values.extend(self.fields(word)?.into_iter().map(|arg| arg.text));
        }
        // Every value is tried, up to a number: paths differ in what they reach.
        values.dedup();
        if values.is_empty() || values.len() > 16 {
            let rest = values.len().saturating_sub(16);
            values.truncate(16);
            if rest > 0 || values.is_empty() {
                values.push(UNKNOWN.to_string());
            }
        }
        for value in values {
            self.set(name, value);
            self.deeper(|walk| walk.list(body, streams))?;
        }
        Ok(Output::default())
    }
}

/// Whether a function pipes into itself, as a fork bomb does.
fn calls_itself(name: &str, body: &List) -> bool {
    fn is_call(node: &Node, name: &str) -> bool {
        match node {
            Node::Simple(simple) => simple.words.first().is_some_and(|word| {
                matches!(word.pieces.as_slice(), [super::super::shell::Piece::Text { text, .. }] if text == name)
            }),
            _ => false,
        }
    }
    body.iter().any(|node| match node {
        Node::Pipeline(commands) => commands.iter().filter(|command| is_call(command, name)).count() > 1,
        Node::Group { body, .. } => calls_itself(name, body),
        _ => false,
    })
}

//! Handles one request in a worker: dispatches it and sends the final response.
//!
//! A stream id is freed before its final response is sent, because the host may reuse it immediately.

use std::net::SocketAddrV4;
use std::sync::Arc;

use agentiso_proto::{GuestError, Request, Response};

use crate::{
    agent::Agent,
    card,
    connect::{Server, connect},
    error::{Outcome, cancelled, invalid},
    exec, files, filesystem,
    find::find,
    frames::Scratch,
    grep::grep,
    hold, job, list, paths, power, remove,
    session::Streams,
    status,
    stream::Stream,
    sync::locked,
    tree_receive, tree_send,
    workers::Job,
};

/// A request that a worker handles.
pub(crate) struct RequestJob {
    agent: Arc<Agent>,
    streams: Arc<Streams>,
    stream: Arc<Stream>,
    request: Request,
    result: Result<Response, GuestError>,
}

impl RequestJob {
    pub(crate) fn new(
        agent: Arc<Agent>,
        streams: Arc<Streams>,
        stream: Arc<Stream>,
        request: Request,
    ) -> Self {
        Self { agent, streams, stream, request, result: Err(cancelled()) }
    }
}

impl Job for RequestJob {
    fn run(&mut self, scratch: &mut Scratch) {
        scratch.data.clear();
        scratch.tail.clear();
        self.result = answer(&self.agent, &self.streams, &self.stream, &self.request, scratch);
        if self.result.is_err() {
            scratch.tail.clear();
        }
    }

    fn conclude(self: Box<Self>, scratch: &mut Scratch) {
        // The id of a stream that was concluded early may already belong to another stream.
        if self.stream.is_concluded() {
            return scratch.tail.clear();
        }
        // Free the id before the host learns that it may reuse it.
        let id = self.stream.id();
        locked(&self.streams).remove(&id);
        let power_off = self.result.is_ok() && matches!(self.request, Request::PowerOff);
        self.stream.conclude(self.result, &mut scratch.tail);
        if power_off {
            power::off(&self.agent);
        }
    }
}

fn answer(
    agent: &Arc<Agent>,
    streams: &Arc<Streams>,
    stream: &Arc<Stream>,
    request: &Request,
    scratch: &mut Scratch,
) -> Outcome<Response> {
    stream.check()?;
    match request {
        Request::Configure(_) | Request::Wake(_) | Request::Clock | Request::SetClock { .. } => {
            Err(invalid("configure requests are handled by the link thread"))
        }
        Request::Exec(exec) => exec::run(agent, streams, stream, exec, scratch),
        Request::ReadFile { path, offset, length } => files::read(stream, path, *offset, *length, scratch),
        Request::WriteFile { path, mode, append, parents } => files::write(
            stream,
            path,
            files::WriteOptions { mode: *mode, append: *append, parents: *parents },
        ),
        Request::Stat { path, follow } => list::stat(path, *follow),
        Request::List { path } => list::list(stream, path),
        Request::Remove { path, recursive } => remove::remove(stream, path, *recursive),
        Request::Rename { from, to, overwrite } => files::rename(from, to, *overwrite),
        Request::Mkdir { path, mode, parents } => paths::make_directory(path, *mode, *parents),
        Request::Chmod { path, mode } => files::change_mode(path, *mode),
        Request::SendTree { path } => tree_send::send(stream, path, scratch),
        Request::ReceiveTree { path, options } => tree_receive::receive(stream, path, *options),
        Request::Freeze => hold::freeze(agent, stream),
        Request::Thaw => filesystem::thaw(agent),
        Request::Grow => filesystem::grow(agent),
        Request::Sync => {
            rustix::fs::sync();
            Ok(Response::Done)
        }
        Request::Status => status::status(agent),
        Request::PowerOff => agent.machine().map(|_| Response::Done),
        Request::Hold { root } => hold::hold(agent, stream, *root),
        Request::Release => hold::release(agent),
        Request::StartJob(exec) => job::start(agent, exec),
        Request::ListJobs => job::list(agent, stream),
        Request::ReadJob(read) => job::read(agent, stream, read, scratch),
        Request::WriteJob { id, bytes, close } => job::write(agent, stream, *id, bytes, *close),
        Request::SignalJob { id, signal } => job::signal(agent, *id, *signal),
        Request::ForgetJob { id } => agent.jobs.forget(*id).map(|()| Response::Done),
        Request::SetEnv { changes } => agent.environment.set(changes),
        Request::GetEnv => Ok(agent.environment.list()),
        Request::Find(request) => find(stream, request),
        Request::Grep(request) => grep(stream, request, scratch),
        Request::SetCard { card } => card::set(agent, card.as_ref()),
        Request::Connect { port } => connect(agent, stream, Server::Own(*port), scratch),
        Request::ConnectTo { address, port } => {
            connect(agent, stream, Server::Neighbour(SocketAddrV4::new((*address).into(), *port)), scratch)
        }
    }
}

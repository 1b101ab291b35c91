//! The link thread: decodes frames from the host and dispatches them.
//!
//! It owns the streams of the current session. A new Hello ends the old session. After bytes that are not a frame,
//! everything up to the next Hello is discarded; commands keep running meanwhile.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use agentiso_proto::{
    Channel, Control, Decoder, Event, Frame, FrameError, Hello, Inherit, Kind, MAX_STREAMS, Request,
    Response, encode, from_bytes,
};

use crate::{
    agent::Agent,
    clock,
    command_io::CommandIo,
    configure,
    error::invalid,
    filesystem, hold,
    link::{Arrived, Epoch, Link},
    log::log,
    requests::RequestJob,
    stream::Stream,
    sync::locked,
    wake,
};

/// Bytes read from the link at a time: a full data frame and a little more.
const READ_BUFFER: usize = 160 * 1024;

pub(crate) type Streams = Mutex<HashMap<u32, Arc<Stream>>>;

/// Serves the host on a link until the link is closed for good.
pub(crate) fn serve(agent: &Arc<Agent>, link: &Arc<Link>) {
    let mut server =
        Server { agent, link, decoder: Decoder::searching(), session: None, reported_loss: false };
    let mut buffer = vec![0; READ_BUFFER];
    let mut watching = false;
    loop {
        match link.read(&mut buffer) {
            Arrived::Bytes(count) => {
                if std::mem::take(&mut watching) {
                    report(link.watch_for_host(false));
                }
                server.take_in(&buffer[..count]);
            }
            Arrived::Nobody if watching => link.wait_for_host(),
            Arrived::Nobody => {
                server.end_session();
                hold::end_later(agent);
                server.decoder = Decoder::searching();
                report(link.watch_for_host(true));
                watching = true;
            }
            Arrived::Closed => {
                server.end_session();
                return hold::end_later(agent);
            }
        }
    }
}

fn report(result: rustix::io::Result<()>) {
    if let Err(errno) = result {
        log(&format!("cannot watch the port for a host: {errno}"));
    }
}

struct Server<'a> {
    agent: &'a Arc<Agent>,
    link: &'a Arc<Link>,
    decoder: Decoder,
    session: Option<Session>,
    reported_loss: bool,
}

struct Session {
    epoch: Epoch,
    streams: Arc<Streams>,
}

impl Server<'_> {
    fn take_in(&mut self, mut bytes: &[u8]) {
        while let Some(event) = self.decoder.next(&mut bytes) {
            match event {
                Event::Frame(frame) => self.handle(frame),
                Event::Hello(hello) => self.start_session(hello),
                Event::Lost(error) => self.note_loss(error),
            }
        }
    }

    /// Logs a loss of synchronisation once. It is normal after a restore.
    fn note_loss(&mut self, error: FrameError) {
        if !std::mem::replace(&mut self.reported_loss, true) {
            log(&format!("lost synchronisation with the host; waiting for the next hello: {error}"));
        }
    }

    fn start_session(&mut self, hello: Hello) {
        self.end_session();
        match hello.inherit {
            Inherit::Keep => hold::end_forgotten(self.agent),
            Inherit::Kill => {
                // A process that waits for a frozen root cannot exit; one that is merely held can be killed.
                if let Ok(machine) = self.agent.machine() {
                    filesystem::thaw_forgotten(machine);
                }
                self.agent.running.end_all();
                hold::end_forgotten(self.agent);
            }
            Inherit::Held => hold::keep(self.agent),
        }
        let welcome = hello.answer();
        let epoch = self.link.begin(&welcome.encode());
        if welcome.version == 0 {
            self.link.end();
        } else {
            self.session = Some(Session { epoch, streams: Arc::default() });
        }
    }

    /// Wakes every worker that waits for the old session. Its commands keep running with their output discarded.
    fn end_session(&mut self) {
        self.link.end();
        if let Some(session) = self.session.take() {
            for stream in locked(&session.streams).values() {
                stream.end();
            }
        }
    }

    fn handle(&mut self, frame: Frame) {
        let Some(session) = &self.session else { return };
        match frame.kind {
            Kind::Ping => {
                let mut pong = Vec::new();
                encode(Kind::Pong, frame.channel, false, frame.stream, &frame.payload, &mut pong);
                // If the session has ended, the next read reports it.
                let _ = self.link.send(session.epoch, &pong);
            }
            Kind::Request => self.open(session, frame),
            // Frames for a finished stream were already in flight.
            _ => {
                if let Some(stream) = session.stream(frame.stream) {
                    pass_on(&stream, frame);
                }
            }
        }
    }

    fn open(&self, session: &Session, frame: Frame) {
        let stream = Arc::new(Stream::new(frame.stream, Arc::clone(self.link), session.epoch));
        let mut streams = locked(&session.streams);
        if streams.contains_key(&frame.stream) {
            // Not answered: a response would end the stream that uses this id.
            return log(&format!("ignored a request on stream {}, which is in use", frame.stream));
        }
        if streams.len() >= MAX_STREAMS {
            drop(streams);
            return stream.conclude(Err(invalid("too many streams are open")), &mut Vec::new());
        }
        let request = match from_bytes::<Request>(&frame.payload) {
            Ok(Request::Configure(configuration)) => {
                drop(streams);
                let result = configure::configure(self.agent, &configuration);
                return stream.conclude(result, &mut Vec::new());
            }
            Ok(Request::Wake(request)) => {
                drop(streams);
                let result = wake::wake(self.agent, &request);
                return stream.conclude(result, &mut Vec::new());
            }
            Ok(Request::Clock) => {
                drop(streams);
                return stream.conclude(Ok(Response::Clock { nanos: clock::steady() }), &mut Vec::new());
            }
            Ok(Request::SetClock { ahead }) => {
                drop(streams);
                let result = clock::set_ahead(self.agent, ahead);
                return stream.conclude(result, &mut Vec::new());
            }
            Ok(request) => request,
            Err(error) => {
                drop(streams);
                let error = invalid(format!("cannot decode the request: {error}"));
                return stream.conclude(Err(error), &mut Vec::new());
            }
        };
        streams.insert(frame.stream, Arc::clone(&stream));
        drop(streams);
        let job = RequestJob::new(Arc::clone(self.agent), Arc::clone(&session.streams), stream, request);
        self.agent.workers.submit(Box::new(job));
    }
}

impl Session {
    fn stream(&self, id: u32) -> Option<Arc<Stream>> {
        locked(&self.streams).get(&id).cloned()
    }
}

fn pass_on(stream: &Stream, frame: Frame) {
    match frame.kind {
        Kind::Data if frame.channel == Channel::Main => stream.deliver(frame.payload),
        Kind::Eof if frame.channel == Channel::Main => stream.finish_input(),
        Kind::Credit => {
            if let Ok(bytes) = <[u8; 4]>::try_from(frame.payload.as_slice()) {
                stream.grant(frame.channel, u32::from_le_bytes(bytes));
            }
        }
        Kind::Cancel => stream.cancel(),
        Kind::Control => {
            if let Ok(control) = from_bytes::<Control>(&frame.payload) {
                stream.control(control);
            }
        }
        // Other frames do not concern a stream, and the guest receives no responses.
        _ => {}
    }
}

//! The link thread: turns what the host sends into work.

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

/// Bytes taken from the link at once: a full data frame and a little more.
const READ_BUFFER: usize = 160 * 1024;

/// The streams of one session.
pub(crate) type Streams = Mutex<HashMap<u32, Arc<Stream>>>;

/// Serves the host on a link until it is closed for good.
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

    /// A cut stream is ordinary after a restore; one line is enough, whatever the host goes on to send.
    fn note_loss(&mut self, error: FrameError) {
        if !std::mem::replace(&mut self.reported_loss, true) {
            log(&format!("lost the thread of the host's words until its next hello: {error}"));
        }
    }

    fn start_session(&mut self, hello: Hello) {
        self.end_session();
        match hello.inherit {
            Inherit::Keep => hold::end_forgotten(self.agent),
            Inherit::Kill => {
                // A process that waits for the root cannot end; one that is only held can, and does nothing more.
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

    /// Releases every worker that waits for the old session. Its commands go on, unheard.
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
                // If the session is over, the next read says so.
                let _ = self.link.send(session.epoch, &pong);
            }
            Kind::Request => self.open(session, frame),
            // What comes for a stream that is finished was on its way already.
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
            // An answer would end the stream that has this number, which did nothing wrong.
            return log(&format!("request on stream {}, which is in use, ignored", frame.stream));
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
                let error = invalid(format!("the request does not decode: {error}"));
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
        // Nothing else concerns a stream, and the guest gets no answers.
        _ => {}
    }
}

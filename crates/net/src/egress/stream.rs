//! The host's side of a connection through the proxy.
//!
//! ```text
//!  looking at the first bytes ──► passing (the server's socket itself)
//!            │                ├─► serving (a pipe to a task that speaks HTTP)
//!            └────────────────┴─► refusing (a TLS alert, or a reset)
//! ```

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use agentiso_policy::egress::Rule;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::Sleep;

use super::answer::tls_alert;
use super::gate::Gate;
use super::hello::ClientHello;
use super::serve::{Kind, serve};
use super::sniff::{MAX_FIRST, Sniffed, sniff};
use crate::machine::{Handling, HostStream};

/// Between the guest's connection and the task that serves it. More than the first bytes, which are put into it at once.
const PIPE: usize = 2 * MAX_FIRST;
/// What a guest may send on after it was refused.
const MAX_IGNORED: usize = 1 << 20;
/// The header of a frame of HTTP/2.
const FRAME_HEADER: usize = 9;

pub(crate) struct ProxyStream {
    gate: Arc<Gate>,
    state: State,
}

enum State {
    Looking { upstream: TcpStream, first: Vec<u8>, deadline: Pin<Box<Sleep>>, is_greeted: bool },
    Passing { upstream: TcpStream, first: Vec<u8>, written: usize },
    Serving { pipe: DuplexStream, task: AbortHandle, ignored: usize },
    Refusing { answer: Vec<u8>, sent: usize, ignored: usize },
}

impl Drop for ProxyStream {
    fn drop(&mut self) {
        if let State::Serving { task, .. } = &self.state {
            task.abort();
        }
    }
}

impl ProxyStream {
    /// A connection whose first bytes are looked at before anything is sent to the server.
    pub(crate) fn new(gate: Gate, upstream: TcpStream) -> Self {
        let deadline = Box::pin(tokio::time::sleep(gate.patience()));
        Self {
            gate: Arc::new(gate),
            state: State::Looking { upstream, first: Vec::new(), deadline, is_greeted: false },
        }
    }

    /// Decides, once it is clear what the first bytes are.
    fn settle(&mut self, sniffed: &Sniffed, cx: &mut Context<'_>) {
        let placeholder = State::Refusing { answer: Vec::new(), sent: 0, ignored: 0 };
        let State::Looking { upstream, first, .. } = std::mem::replace(&mut self.state, placeholder) else {
            return;
        };
        self.state = match sniffed {
            Sniffed::Http1 => self.serve(Kind::Http1, upstream, &first, cx),
            Sniffed::Http2 => self.serve(Kind::Http2, upstream, &first, cx),
            Sniffed::Tls(hello) => self.settle_tls(hello, upstream, first, cx),
            Sniffed::Other(what) => self.settle_unnamed(Rule::NotHttp(what), Vec::new(), upstream, first),
            Sniffed::More => {
                self.settle_unnamed(Rule::NotHttp("no request arrived"), Vec::new(), upstream, first)
            }
        };
    }

    fn settle_tls(
        &self,
        hello: &ClientHello,
        upstream: TcpStream,
        first: Vec<u8>,
        cx: &mut Context<'_>,
    ) -> State {
        let Some(name) = &hello.server_name else {
            return self.settle_unnamed(Rule::NoName, tls_alert(&Rule::NoName), upstream, first);
        };
        let verdict = self.gate.name_verdict(name);
        if !verdict.allowed {
            self.gate.log_refused(Some(name), &verdict.rule);
            return State::Refusing { answer: tls_alert(&verdict.rule), sent: 0, ignored: 0 };
        }
        if !self.gate.needs_interception(name) {
            self.gate.handled(Handling::Passed { name: Some(name.clone()) });
            return State::Passing { upstream, first, written: 0 };
        }
        let kind = Kind::Tls { name: name.clone(), protocols: hello.protocols.clone() };
        self.serve(kind, upstream, &first, cx)
    }

    /// A connection that names no host passes only if its address is allowed as such.
    fn settle_unnamed(&self, rule: Rule, answer: Vec<u8>, upstream: TcpStream, first: Vec<u8>) -> State {
        if self.gate.is_open_range() {
            self.gate.handled(Handling::Passed { name: None });
            return State::Passing { upstream, first, written: 0 };
        }
        self.gate.log_refused(None, &rule);
        State::Refusing { answer, sent: 0, ignored: 0 }
    }

    fn serve(&self, kind: Kind, upstream: TcpStream, first: &[u8], cx: &mut Context<'_>) -> State {
        let Ok(place) = Arc::clone(&self.gate.machine.served).try_acquire_owned() else {
            self.gate.log_refused(None, &Rule::Limit("connections that the proxy looks into"));
            return State::Refusing { answer: Vec::new(), sent: 0, ignored: 0 };
        };
        let (mut pipe, far) = tokio::io::duplex(PIPE);
        // An empty pipe takes all of it.
        let is_taken =
            matches!(Pin::new(&mut pipe).poll_write(cx, first), Poll::Ready(Ok(n)) if n == first.len());
        if !is_taken {
            return State::Refusing { answer: Vec::new(), sent: 0, ignored: 0 };
        }
        let name = match &kind {
            Kind::Tls { name, .. } => Some(name.clone()),
            Kind::Http1 | Kind::Http2 => None,
        };
        self.gate.handled(Handling::Served { name });
        let gate = Arc::clone(&self.gate);
        let task = self.gate.machine.spawn(async move {
            let _place = place;
            serve(gate, kind, far, upstream).await;
        });
        State::Serving { pipe, task, ignored: 0 }
    }

    /// While nothing is known yet: the deadline, and a server that speaks first.
    fn poll_looking(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State::Looking { upstream, deadline, is_greeted, .. } = &mut self.state else {
            return Poll::Ready(());
        };
        if deadline.as_mut().poll(cx).is_ready() {
            self.settle(&Sniffed::More, cx);
            return Poll::Ready(());
        }
        if *is_greeted {
            return Poll::Pending;
        }
        let mut bytes = [0; FRAME_HEADER];
        let mut buffer = ReadBuf::new(&mut bytes);
        match ready!(upstream.poll_peek(cx, &mut buffer)) {
            Ok(1..) if is_settings(buffer.filled()) => {
                *is_greeted = true;
                return Poll::Pending;
            }
            Ok(1..) => {
                let what = "the server speaks first, so this is neither TLS nor HTTP";
                self.settle(&Sniffed::Other(what), cx);
            }
            // The server is gone, so there is nothing to decide.
            Ok(0) | Err(_) => {
                self.state = State::Refusing { answer: Vec::new(), sent: 0, ignored: 0 };
            }
        }
        Poll::Ready(())
    }
}

/// Whether bytes of a server are the first frame of HTTP/2, which it may send before it is asked.
fn is_settings(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, _, 4, 0, 0, 0, 0, 0])
}

/// Sends the first bytes on, before anything else.
fn flush(
    upstream: &mut TcpStream,
    first: &mut Vec<u8>,
    written: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while *written < first.len() {
        *written += ready!(Pin::new(&mut *upstream).poll_write(cx, &first[*written..]))?;
    }
    if !first.is_empty() {
        (*first, *written) = (Vec::new(), 0);
    }
    Poll::Ready(Ok(()))
}

/// Throws away what a guest sends on after its answer, within a limit.
fn ignore(ignored: &mut usize, data: &[u8]) -> io::Result<usize> {
    *ignored += data.len();
    if *ignored > MAX_IGNORED { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(data.len()) }
}

impl AsyncRead for ProxyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_looking(cx));
        match &mut self.state {
            State::Looking { .. } => Poll::Pending,
            State::Passing { upstream, first, written } => {
                if let Poll::Ready(Err(error)) = flush(upstream, first, written, cx) {
                    return Poll::Ready(Err(error));
                }
                Pin::new(upstream).poll_read(cx, buffer)
            }
            State::Serving { pipe, .. } => Pin::new(pipe).poll_read(cx, buffer),
            State::Refusing { answer, .. } if answer.is_empty() => {
                Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
            }
            State::Refusing { answer, sent, .. } => {
                let count = buffer.remaining().min(answer.len() - *sent);
                buffer.put_slice(&answer[*sent..*sent + count]);
                *sent += count;
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for ProxyStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.state {
            State::Looking { first, .. } => {
                let taken = data.len().min(MAX_FIRST - first.len());
                first.extend_from_slice(&data[..taken]);
                let sniffed = sniff(first);
                if sniffed != Sniffed::More {
                    self.settle(&sniffed, cx);
                }
                Poll::Ready(Ok(taken))
            }
            State::Passing { upstream, first, written } => {
                ready!(flush(upstream, first, written, cx))?;
                Pin::new(upstream).poll_write(cx, data)
            }
            State::Serving { pipe, ignored, .. } => match Pin::new(pipe).poll_write(cx, data) {
                // The task has answered and ended; the guest may not have read the answer yet.
                Poll::Ready(Err(_)) => Poll::Ready(ignore(ignored, data)),
                written => written,
            },
            State::Refusing { ignored, .. } => Poll::Ready(ignore(ignored, data)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let State::Looking { upstream, first, .. } = &mut self.state {
            if first.is_empty() {
                // Nothing was asked, so there is nothing to decide.
                return Pin::new(upstream).poll_shutdown(cx);
            }
            self.settle(&Sniffed::More, cx);
        }
        match &mut self.state {
            State::Looking { .. } | State::Refusing { .. } => Poll::Ready(Ok(())),
            State::Passing { upstream, first, written } => {
                ready!(flush(upstream, first, written, cx))?;
                Pin::new(upstream).poll_shutdown(cx)
            }
            State::Serving { pipe, .. } => Pin::new(pipe).poll_shutdown(cx),
        }
    }
}

impl HostStream for ProxyStream {
    fn reset(&self) {
        match &self.state {
            State::Looking { upstream, .. } | State::Passing { upstream, .. } => upstream.reset(),
            State::Serving { .. } | State::Refusing { .. } => {}
        }
    }
}

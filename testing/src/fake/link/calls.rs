//! The calls of the port.

use std::net::Ipv4Addr;
use std::sync::{Arc, Weak};

use agentiso_core::ports::link::{
    ConnectionReader, ConnectionWriter, DirEntry, Exec, FileReader, FileWriter, Find, Found, Grep, Grepped,
    GuestError, JobInfo, JobOutput, JobRead, JobWait, LinkError, Metadata, Process, Status, TreeOptions,
    TreeReader, TreeWriter, WorkspaceLink, WriteOptions, check_name,
};
use async_trait::async_trait;

use super::connections;
use super::files::{Reader, Writer};
use super::processes::FakeProcess;
use super::search;
use super::trees::{Receiving, Sending};
use crate::fake::machine::{LinkCall, Machine, locked};
use crate::fake::memory::Memory;
use crate::fake::tree::{Tree, invalid, not_found};

/// A link into a machine.
pub(in crate::fake) struct FakeLink {
    machine: Arc<Machine>,
}

impl FakeLink {
    pub fn new(machine: Arc<Machine>) -> Self {
        Self { machine }
    }

    /// Does something with the files of the machine.
    async fn files<T>(
        &self,
        call: LinkCall,
        act: impl FnOnce(&mut Tree) -> Result<T, GuestError>,
    ) -> Result<T, LinkError> {
        self.machine.pass(call).await?;
        act(&mut locked(&self.machine.disk)).map_err(LinkError::Guest)
    }

    /// Starts a process.
    fn start(&self, exec: &Exec) -> Result<u32, GuestError> {
        locked(&self.machine.shared.requested).push(exec.clone());
        let answers = locked(&self.machine.shared.answers).clone();
        self.machine.work(|memory, tree| memory.start(exec, tree, &answers))
    }

    async fn job<T>(
        &self,
        call: LinkCall,
        id: u32,
        act: impl FnOnce(&mut Memory, &mut Tree, u32) -> Result<T, GuestError>,
    ) -> Result<T, LinkError> {
        self.machine.pass(call).await?;
        let done = self.machine.work(|memory, tree| {
            let pid = memory.pid_of_job(id)?;
            act(memory, tree, pid)
        });
        done.map_err(LinkError::Guest)
    }
}

#[async_trait]
impl WorkspaceLink for FakeLink {
    async fn status(&self) -> Result<Status, LinkError> {
        self.machine.pass(LinkCall::Status).await?;
        let running = self.machine.look(|memory| memory.running());
        Ok(Status {
            rss_kib: 1024,
            open_fds: 8,
            threads: 4,
            zombies: 0,
            running: u32::try_from(running).unwrap_or(u32::MAX),
            mem_total_kib: 512 << 10,
            mem_available_kib: 400 << 10,
            root_bytes: 10 << 30,
            root_free_bytes: (10 << 30) - locked(&self.machine.disk).bytes(),
        })
    }

    async fn exec(&self, exec: Exec) -> Result<Box<dyn Process>, LinkError> {
        self.machine.pass(LinkCall::Exec).await?;
        let started = self.start(&exec);
        Ok(Box::new(FakeProcess::new(Arc::clone(&self.machine), started, exec.stdin, exec.tty.is_some())))
    }

    async fn start_job(&self, exec: Exec) -> Result<u32, LinkError> {
        self.machine.pass(LinkCall::StartJob).await?;
        let pid = self.start(&exec).map_err(LinkError::Guest)?;
        let timeout = exec.timeout_ms.map(std::time::Duration::from_millis);
        let job = self.machine.look(|memory| memory.make_job(pid, timeout, true));
        job.ok_or_else(|| LinkError::Guest(not_found("the process is gone")))
    }

    async fn jobs(&self) -> Result<Vec<JobInfo>, LinkError> {
        self.machine.pass(LinkCall::Jobs).await?;
        Ok(self.machine.look(Memory::job_infos))
    }

    async fn read_job(&self, read: JobRead) -> Result<JobOutput, LinkError> {
        self.machine.pass(LinkCall::ReadJob).await?;
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_millis(read.wait_ms.into());
        let mut watch = self.machine.watch();
        loop {
            let output = self.machine.look(|memory| output_of(memory, read)).map_err(LinkError::Guest)?;
            let is_news = !output.stdout.is_empty() || !output.stderr.is_empty();
            let is_enough = match read.wait {
                JobWait::No => true,
                JobWait::Output => is_news || !output.info.running,
                JobWait::Exit => !output.info.running,
            };
            if is_enough || tokio::time::Instant::now() >= deadline {
                return Ok(output);
            }
            // Whether time is up is seen in the next round.
            let _ = tokio::time::timeout_at(deadline, self.machine.change(&mut watch)).await;
            self.machine.require_alive()?;
        }
    }

    async fn write_job(&self, id: u32, bytes: &[u8], close: bool) -> Result<(), LinkError> {
        let feed = |memory: &mut Memory, tree: &mut Tree, pid: u32| {
            let fed = memory.feed(pid, bytes, close, tree);
            fed.map_err(|_| invalid(format!("job {id} takes no input")))
        };
        self.job(LinkCall::WriteJob, id, feed).await
    }

    async fn signal_job(&self, id: u32, signal: i32) -> Result<(), LinkError> {
        self.job(LinkCall::SignalJob, id, |memory, _, pid| {
            memory.signal(pid, signal);
            Ok(())
        })
        .await
    }

    async fn stat(&self, path: &[u8], follow: bool) -> Result<Metadata, LinkError> {
        self.files(LinkCall::Stat, |tree| tree.stat(path, follow)).await
    }

    async fn list(&self, path: &[u8]) -> Result<Vec<DirEntry>, LinkError> {
        self.files(LinkCall::List, |tree| tree.list(path)).await
    }

    async fn read_file(
        &self,
        path: &[u8],
        offset: u64,
        length: Option<u64>,
    ) -> Result<Box<dyn FileReader>, LinkError> {
        self.machine.pass(LinkCall::ReadFile).await?;
        let read = locked(&self.machine.disk).read(path).map(|(about, bytes)| (about, bytes.to_vec()));
        Ok(Box::new(Reader::new(read, offset, length)))
    }

    async fn write_file(&self, path: &[u8], options: WriteOptions) -> Result<Box<dyn FileWriter>, LinkError> {
        self.machine.pass(LinkCall::WriteFile).await?;
        Ok(Box::new(Writer::new(Arc::clone(&self.machine), path, options)))
    }

    async fn remove(&self, path: &[u8], recursive: bool) -> Result<(), LinkError> {
        self.files(LinkCall::Remove, |tree| tree.remove(path, recursive)).await
    }

    async fn rename(&self, from: &[u8], to: &[u8], overwrite: bool) -> Result<(), LinkError> {
        self.files(LinkCall::Rename, |tree| tree.rename(from, to, overwrite)).await
    }

    async fn mkdir(&self, path: &[u8], mode: Option<u32>, parents: bool) -> Result<(), LinkError> {
        self.files(LinkCall::Mkdir, |tree| tree.mkdir(path, mode, parents)).await
    }

    async fn send_tree(&self, path: &[u8]) -> Result<Box<dyn TreeReader>, LinkError> {
        let sending = self.files(LinkCall::SendTree, |tree| Sending::new(tree, path)).await?;
        Ok(Box::new(sending))
    }

    async fn receive_tree(
        &self,
        path: &[u8],
        options: TreeOptions,
    ) -> Result<Box<dyn TreeWriter>, LinkError> {
        self.files(LinkCall::ReceiveTree, |tree| tree.mkdir(path, None, true)).await?;
        Ok(Box::new(Receiving::new(Arc::clone(&self.machine), path, options)))
    }

    async fn find(&self, find: Find) -> Result<Found, LinkError> {
        self.files(LinkCall::Find, |tree| search::find(tree, &find)).await
    }

    async fn grep(&self, grep: Grep) -> Result<Grepped, LinkError> {
        self.files(LinkCall::Grep, |tree| search::grep(tree, &grep)).await
    }

    async fn env(&self) -> Result<Vec<(String, String)>, LinkError> {
        self.machine.pass(LinkCall::Env).await?;
        Ok(self.machine.look(|memory| memory.env.clone()).into_iter().collect())
    }

    async fn set_env(&self, changes: Vec<(String, Option<String>)>) -> Result<u32, LinkError> {
        self.machine.pass(LinkCall::SetEnv).await?;
        for (name, _) in &changes {
            check_name(name).map_err(|error| LinkError::Guest(invalid(error.to_string())))?;
        }
        let count = self.machine.look(|memory| {
            for (name, value) in changes {
                match value {
                    Some(value) => memory.env.insert(name, value),
                    None => memory.env.remove(&name),
                };
            }
            memory.env.len()
        });
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    async fn connect(
        &self,
        port: u16,
    ) -> Result<(Box<dyn ConnectionReader>, Box<dyn ConnectionWriter>), LinkError> {
        self.machine.pass(LinkCall::Connect).await?;
        if !self.machine.look(|memory| memory.serves(port)) {
            return Err(LinkError::Guest(not_found(format!("nothing listens on port {port}"))));
        }
        Ok(connections::echo(Arc::clone(&self.machine), port))
    }

    async fn connect_to(
        &self,
        address: Ipv4Addr,
        port: u16,
    ) -> Result<(Box<dyn ConnectionReader>, Box<dyn ConnectionWriter>), LinkError> {
        self.machine.pass(LinkCall::Connect).await?;
        let neighbour = locked(&self.machine.shared.neighbours).get(&address).and_then(Weak::upgrade);
        match neighbour.filter(|machine| machine.look(|memory| memory.serves(port))) {
            Some(machine) => Ok(connections::echo(machine, port)),
            None => Err(LinkError::Guest(not_found(format!("nothing listens on {address}:{port}")))),
        }
    }
}

fn output_of(memory: &mut Memory, read: JobRead) -> Result<JobOutput, GuestError> {
    let pid = memory.pid_of_job(read.id)?;
    let process = memory.process(pid).ok_or_else(|| not_found(format!("there is no job {}", read.id)))?;
    let most = usize::try_from(read.max).unwrap_or(usize::MAX);
    let (stdout_from, stdout) = process.output(1, read.stdout_from, most);
    let (stderr_from, stderr) = process.output(2, read.stderr_from, most);
    Ok(JobOutput { info: process.info(read.id), stdout_from, stdout, stderr_from, stderr })
}

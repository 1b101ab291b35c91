//! The guest link as the link port of the engine.
//!
//! Every method calls the inherent method of the same name: what is boxed here is the handle, once per stream.

use std::net::Ipv4Addr;

use agentiso_core::ports::link::{
    self, DirEntry, Exec, Find, Found, Grep, Grepped, JobInfo, JobOutput, JobRead, LinkError, Metadata,
    ProcessEvent, Status, TreeEntry, TreeItem, TreeOptions, WorkspaceLink, WriteOptions,
};
use async_trait::async_trait;
use bytes::Bytes;

use super::{
    ConnectionReader, ConnectionWriter, FileReader, FileWriter, Guest, Process, ProcessControl, Stdin,
    TreeReader, TreeWriter,
};

#[async_trait]
impl WorkspaceLink for Guest {
    async fn status(&self) -> Result<Status, LinkError> {
        Self::status(self).await
    }

    async fn exec(&self, exec: Exec) -> Result<Box<dyn link::Process>, LinkError> {
        Ok(Box::new(Self::exec(self, exec).await?))
    }

    async fn start_job(&self, exec: Exec) -> Result<u32, LinkError> {
        Self::start_job(self, exec).await
    }

    async fn jobs(&self) -> Result<Vec<JobInfo>, LinkError> {
        Self::jobs(self).await
    }

    async fn read_job(&self, read: JobRead) -> Result<JobOutput, LinkError> {
        Self::read_job(self, read).await
    }

    async fn write_job(&self, id: u32, bytes: &[u8], close: bool) -> Result<(), LinkError> {
        Self::write_job(self, id, bytes, close).await
    }

    async fn signal_job(&self, id: u32, signal: i32) -> Result<(), LinkError> {
        Self::signal_job(self, id, signal).await
    }

    async fn stat(&self, path: &[u8], follow: bool) -> Result<Metadata, LinkError> {
        Self::stat(self, path, follow).await
    }

    async fn list(&self, path: &[u8]) -> Result<Vec<DirEntry>, LinkError> {
        Self::list(self, path).await
    }

    async fn read_file(
        &self,
        path: &[u8],
        offset: u64,
        length: Option<u64>,
    ) -> Result<Box<dyn link::FileReader>, LinkError> {
        Ok(Box::new(Self::read_file(self, path, offset, length).await?))
    }

    async fn write_file(
        &self,
        path: &[u8],
        options: WriteOptions,
    ) -> Result<Box<dyn link::FileWriter>, LinkError> {
        Ok(Box::new(Self::write_file(self, path, options).await?))
    }

    async fn remove(&self, path: &[u8], recursive: bool) -> Result<(), LinkError> {
        Self::remove(self, path, recursive).await
    }

    async fn rename(&self, from: &[u8], to: &[u8], overwrite: bool) -> Result<(), LinkError> {
        Self::rename(self, from, to, overwrite).await
    }

    async fn mkdir(&self, path: &[u8], mode: Option<u32>, parents: bool) -> Result<(), LinkError> {
        Self::mkdir(self, path, mode, parents).await
    }

    async fn send_tree(&self, path: &[u8]) -> Result<Box<dyn link::TreeReader>, LinkError> {
        Ok(Box::new(Self::send_tree(self, path).await?))
    }

    async fn receive_tree(
        &self,
        path: &[u8],
        options: TreeOptions,
    ) -> Result<Box<dyn link::TreeWriter>, LinkError> {
        Ok(Box::new(Self::receive_tree(self, path, options).await?))
    }

    async fn find(&self, find: Find) -> Result<Found, LinkError> {
        Self::find(self, find).await
    }

    async fn grep(&self, grep: Grep) -> Result<Grepped, LinkError> {
        Self::grep(self, grep).await
    }

    async fn env(&self) -> Result<Vec<(String, String)>, LinkError> {
        Self::env(self).await
    }

    async fn set_env(&self, changes: Vec<(String, Option<String>)>) -> Result<u32, LinkError> {
        Self::set_env(self, changes).await
    }

    async fn connect(
        &self,
        port: u16,
    ) -> Result<(Box<dyn link::ConnectionReader>, Box<dyn link::ConnectionWriter>), LinkError> {
        let (reader, writer) = Self::connect(self, port).await?;
        Ok((Box::new(reader), Box::new(writer)))
    }

    async fn connect_to(
        &self,
        address: Ipv4Addr,
        port: u16,
    ) -> Result<(Box<dyn link::ConnectionReader>, Box<dyn link::ConnectionWriter>), LinkError> {
        let (reader, writer) = Self::connect_to(self, address, port).await?;
        Ok((Box::new(reader), Box::new(writer)))
    }
}

#[async_trait]
impl link::Process for Process {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, LinkError> {
        Self::next(self).await
    }

    fn take_stdin(&mut self) -> Option<Box<dyn link::Stdin>> {
        Self::take_stdin(self).map(|stdin| Box::new(stdin) as Box<dyn link::Stdin>)
    }

    fn control(&self) -> Box<dyn link::ProcessControl> {
        Box::new(Self::control(self))
    }
}

#[async_trait]
impl link::Stdin for Stdin {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        Self::write(self, bytes).await
    }
}

#[async_trait]
impl link::ProcessControl for ProcessControl {
    fn cancel(&self) {
        Self::cancel(self);
    }

    async fn signal(&self, signal: i32) -> Result<(), LinkError> {
        Self::signal(self, signal).await
    }

    async fn detach(&self, timeout_ms: Option<u64>) -> Result<(), LinkError> {
        Self::detach(self, timeout_ms).await
    }

    async fn report_input(&self) -> Result<(), LinkError> {
        Self::report_input(self).await
    }

    async fn resize(&self, columns: u16, rows: u16) -> Result<(), LinkError> {
        Self::resize(self, columns, rows).await
    }
}

#[async_trait]
impl link::FileReader for FileReader {
    async fn metadata(&mut self) -> Result<Metadata, LinkError> {
        Self::metadata(self).await.cloned()
    }

    async fn next(&mut self) -> Result<Option<Bytes>, LinkError> {
        Self::next(self).await
    }
}

#[async_trait]
impl link::FileWriter for FileWriter {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        Self::write(self, bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<u64, LinkError> {
        Self::finish(*self).await
    }
}

#[async_trait]
impl link::TreeReader for TreeReader {
    async fn next(&mut self) -> Result<Option<TreeItem>, LinkError> {
        Self::next(self).await
    }
}

#[async_trait]
impl link::TreeWriter for TreeWriter {
    async fn entry(&mut self, entry: &TreeEntry) -> Result<(), LinkError> {
        Self::entry(self, entry).await
    }

    async fn content(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        Self::content(self, bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<u64, LinkError> {
        Self::finish(*self).await
    }
}

#[async_trait]
impl link::ConnectionReader for ConnectionReader {
    async fn next(&mut self) -> Result<Option<Bytes>, LinkError> {
        Self::next(self).await
    }
}

#[async_trait]
impl link::ConnectionWriter for ConnectionWriter {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        Self::write(self, bytes).await
    }
}

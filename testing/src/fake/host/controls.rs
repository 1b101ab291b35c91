//! What a test can do with a fake host beside the port.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentiso_core::ports::host::{ImageView, OciDefaults};
use agentiso_core::ports::link::{Exec, LinkError};
use agentiso_core::{Code, WorkspaceId};
use agentiso_meta::Meta;

use super::state::{FakeHost, HostCall, StoredImage, now};
use crate::fake::answers::Answer;
use crate::fake::faults::Faults;
use crate::fake::machine::{LinkCall, locked};
use crate::fake::tree::Tree;

impl FakeHost {
    /// What becomes of the calls of the host.
    pub fn faults(&self) -> &Faults<HostCall, Code> {
        &self.inner.faults
    }

    /// What becomes of the calls of all links.
    pub fn link_faults(&self) -> &Faults<LinkCall, LinkError> {
        &self.inner.shared.faults
    }

    /// The records.
    pub fn meta(&self) -> &Arc<Meta> {
        &self.inner.meta
    }

    /// Adds an image that wants to be run so.
    ///
    /// # Panics
    ///
    /// If the name is none.
    pub fn add_image(&self, name: &str, defaults: OciDefaults) {
        let name: agentiso_core::ImageName = name.parse().expect("the name of an image");
        let files = Tree::of_image();
        let view = ImageView {
            name: name.clone(),
            source_kind: agentiso_core::action::ImageSource::Debian,
            source: name.to_string(),
            created: now(),
            digest: None,
            file_system_bytes: 1 << 30,
            content_bytes: files.bytes(),
            files: files.under(b"/").count() as u64,
            defaults,
        };
        locked(&self.inner.images).insert(name, StoredImage { view, files });
    }

    /// Puts so many machines into the pool.
    pub fn fill_pool(&self, ready: usize) {
        let mut pool = locked(&self.inner.pool);
        (pool.ready, pool.wanted) = (ready, ready);
    }

    /// How often it was announced that workspaces are likely to be created.
    pub fn expected_creates(&self) -> usize {
        self.inner.expected_creates.load(Ordering::SeqCst)
    }

    /// Answers every command that contains the text.
    pub fn answer(&self, contained: &str, answer: Answer) {
        locked(&self.inner.shared.answers).add(contained, answer);
    }

    /// Every command and job that machines were asked to run so far, in order.
    pub fn requested(&self) -> Vec<Exec> {
        locked(&self.inner.shared.requested).clone()
    }

    /// Ends the machine of a workspace, as if it had crashed. Returns whether it ran.
    pub fn crash(&self, id: WorkspaceId, reason: &str) -> bool {
        let machine = self.running(id);
        if let Some(machine) = &machine {
            machine.end(reason);
        }
        machine.is_some()
    }

    /// Lets the machine of a workspace stand still because the disk of the host is full, or continue.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn set_standstill(&self, id: WorkspaceId, still: bool) {
        self.running(id).expect("a machine").set_still(still);
    }

    /// Lets other machines reach the machine of a workspace at this address.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn put_on_network(&self, id: WorkspaceId, address: Ipv4Addr) {
        let machine = self.running(id).expect("a machine");
        locked(&self.inner.shared.neighbours).insert(address, Arc::downgrade(&machine));
    }

    /// Prints to the console of a workspace's machine.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn print(&self, id: WorkspaceId, text: &str) {
        self.running(id).expect("a machine").print(text);
    }

    /// The variables that the machine of a workspace has.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn variables(&self, id: WorkspaceId) -> Vec<(String, String)> {
        let machine = self.running(id).expect("a machine");
        machine.look(|memory| memory.env.clone()).into_iter().collect()
    }

    /// How many machines run.
    pub fn machines(&self) -> usize {
        let machines = locked(&self.inner.by_pid);
        machines.values().filter(|machine| machine.end_reason().is_none()).count()
    }

    /// Every machine, disk and memory that is kept, by name.
    pub fn kept(&self) -> Vec<String> {
        let machines = locked(&self.inner.by_pid);
        let machines = machines.values().filter(|machine| machine.end_reason().is_none());
        let mut kept: Vec<String> = machines.map(|machine| format!("machine {}", machine.pid)).collect();
        kept.extend(locked(&self.inner.disks).keys().map(|disk| format!("disk {disk}")));
        kept.extend(locked(&self.inner.memories).keys().map(|memory| format!("memory {memory}")));
        kept.sort();
        kept
    }
}

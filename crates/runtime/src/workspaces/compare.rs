//! Comparing the files of two points: snapshots, or workspaces as they are now.

use agentiso_blocking::off_thread;
use agentiso_core::ports::DiskView;
use agentiso_core::{Code, DiskId, Failure};
use agentiso_diff::{Changes, Ext4Error, FileContent, Options, TextDiff, compare, read_file, text_diff};
use agentiso_meta::Workspace;
use agentiso_vmm::TakeMemory;
use uuid::Uuid;

use super::freeze::What;
use super::intent::Intent;
use super::lock::WorkspaceLock;
use super::{CompareRequest, Point, Workspaces};

/// The largest file whose content is compared line by line.
const LARGEST_TEXT: u64 = 4 << 20;

impl Workspaces {
    /// Compares two points.
    pub async fn compare(&self, request: &CompareRequest) -> Result<Changes, Failure> {
        let turn = self.turns.to_compare().await?;
        let (before, after) = self.views(request).await?;
        let under = request.under.as_ref().map(|path| path.clone().into_bytes());
        let options = Options { under, ..Options::default() };
        let compared = off_thread(move || {
            // Released when the work is done, even if the caller was cancelled.
            let _turn = turn;
            compare(before.as_ref(), after.as_ref(), &options)
        });
        Ok(compared.await?)
    }

    /// Compares the text of one file at two points.
    pub async fn compare_file(&self, request: &CompareRequest, path: &str) -> Result<TextDiff, Failure> {
        let turn = self.turns.to_compare().await?;
        let (before, after) = self.views(request).await?;
        let name = path.to_owned();
        let (before, after, turn) = off_thread(move || {
            let before = content(before.as_ref(), &name)?;
            let after = content(after.as_ref(), &name)?;
            Ok::<_, Ext4Error>((before, after, turn))
        })
        .await?;
        if before.is_none() && after.is_none() {
            let message = format!("{path:?} is at neither of the two points");
            return Err(Failure::new(Code::InvalidArgument, message)
                .with_remedy("give the path from the root: /etc/hosts"));
        }
        let compared = off_thread(move || {
            let _turn = turn;
            text_diff(before.as_deref(), after.as_deref())
        });
        Ok(compared.await)
    }

    async fn views(
        &self,
        request: &CompareRequest,
    ) -> Result<(Box<dyn DiskView>, Box<dyn DiskView>), Failure> {
        Ok((self.view_of(request.before).await?, self.view_of(request.after).await?))
    }

    /// The disk at a point. The view does not change, whatever happens to the workspace.
    pub(super) async fn view_of(&self, point: Point) -> Result<Box<dyn DiskView>, Failure> {
        match point {
            Point::Snapshot(id) => {
                let snapshot = self.meta.read(|read| read.snapshot(id))?;
                self.open_view(snapshot.disk).await
            }
            Point::Now(id) => {
                let (workspace, lock) = self.lock(id).await?;
                self.view_of_now(workspace, lock).await
            }
        }
    }

    /// The current disk of a workspace, frozen: the workspace continues on a new layer.
    async fn view_of_now(
        &self,
        workspace: Workspace,
        lock: WorkspaceLock,
    ) -> Result<Box<dyn DiskView>, Failure> {
        let _disks = self.use_disks()?;
        let fresh = DiskId::from_uuid(Uuid::now_v7());
        let intent =
            Intent { disks: vec![fresh], switch: self.switch(&workspace, fresh), ..Intent::default() };
        let _lock = lock.clone();
        let attached = match self.attach_locked(workspace.clone(), lock).await {
            Err(failure) if failure.code() == Code::WorkspaceNotRunning => None,
            other => Some(other?),
        };
        let undertaking = self.undertake("compare", Some(workspace.id), intent)?;
        let frozen = match &attached {
            Some(attached) => {
                let nothing = TakeMemory::Nothing;
                self.freeze_running(attached, &undertaking, What::Disk, fresh, nothing).await?.0
            }
            None => self.freeze_stopped(&workspace, &undertaking, fresh)?,
        };
        let view = self.open_view(frozen).await?;
        undertaking.finish(|_| Ok(()))?;
        Ok(view)
    }

    async fn open_view(&self, disk: DiskId) -> Result<Box<dyn DiskView>, Failure> {
        let (disks, path) = (self.installation.shared_disks(), self.installation.disk_path(disk));
        Ok(off_thread(move || disks.open(&path)).await?)
    }
}

/// The content of a file, or the target of a link; `None` if there is no such file.
fn content(view: &dyn DiskView, path: &str) -> Result<Option<Vec<u8>>, Ext4Error> {
    match read_file(view, path.as_bytes(), LARGEST_TEXT + 1) {
        Ok(FileContent::File { bytes, .. }) => Ok(Some(bytes)),
        Ok(FileContent::Symlink { target }) => Ok(Some(target)),
        Err(Ext4Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

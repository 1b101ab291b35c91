//! Exporting workspaces to archives and importing them.

use std::fs::File;
use std::time::Instant;

use agentiso_core::action::{
    WorkspaceCreate, WorkspaceCreated, WorkspaceExport, WorkspaceExported, WorkspaceImport, WorkspaceImported,
};
use agentiso_core::{Code, Failure, ImageAccess, ImageName, WorkspaceId, WorkspaceName, check_labels};
use tokio::sync::oneshot;

use crate::act::Context;
use crate::actions::images::build_permit;
use crate::views::took_ms;
use crate::{Access, Perform};

/// How many names are tried for the image of an archive.
const TRIES: u32 = 100;

impl Perform for WorkspaceExport {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<WorkspaceExported, Failure> {
        context.require_image_access(ImageAccess::Manage)?;
        let (engine, workspace) = (&context.engine, context.workspace_to_copy().await?);
        let labels = engine.records.settings(workspace.id).await?.labels;
        let began = Instant::now();
        let target = context.host_target(&self.host_path)?;
        let _permit = build_permit().await?;
        let out = Box::new(File::from(target.fd()?));
        let most = context.download_bytes();
        let written = engine.host.export(workspace.id, labels, most, out, &context.progress).await?;
        let host_path = target.finish()?;
        Ok(WorkspaceExported {
            workspace_id: workspace.id.to_string(),
            name: workspace.name.to_string(),
            host_path: host_path.display().to_string(),
            bytes: written.bytes,
            files: written.files,
            took_ms: took_ms(began),
        })
    }
}

impl Perform for WorkspaceImport {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<WorkspaceImported, Failure> {
        context.require_image_access(ImageAccess::Manage)?;
        let engine = &context.engine;
        let began = Instant::now();
        let source = context.host_source(&self.host_path)?;
        let archive = engine.host.open_archive(source.path(), &self.host_path).await?;
        let about = archive.workspace().clone();
        let resources = about.resources;
        resources.check(&engine.settings.limits)?;
        check_labels(&about.labels)?;
        let name: WorkspaceName = match &self.name {
            Some(name) => name.parse()?,
            None => about.name,
        };
        context.require_free_name(&name).await?;
        let image = context.free_image_name(&name).await?;
        let _permit = build_permit().await?;
        let made = archive.into_image(&image, resources.disk_bytes(), &context.progress).await?;
        let create = WorkspaceCreate {
            name: Some(name.to_string()),
            base_image: Some(image.to_string()),
            vcpus: Some(resources.vcpus),
            memory_mb: Some(resources.memory_mb),
            disk_gb: Some(resources.disk_gb),
            labels: about.labels.clone(),
            ..WorkspaceCreate::default()
        };
        let created = context.create_on(image.clone(), create).await?;
        Ok(WorkspaceImported {
            workspace_id: created.workspace_id,
            name: created.name,
            state: created.state,
            base_image: image.to_string(),
            resources: created.resources,
            labels: about.labels,
            files: made.files,
            took_ms: took_ms(began),
        })
    }

    fn made(outcome: &WorkspaceImported) -> Option<WorkspaceId> {
        outcome.workspace_id.parse().ok()
    }

    fn changed(outcome: &WorkspaceImported) -> Option<String> {
        Some(format!("imported {}", outcome.name))
    }
}

impl Context {
    /// Refuses a name that is taken, before the archive is read.
    async fn require_free_name(&self, name: &WorkspaceName) -> Result<(), Failure> {
        let taken = self.engine.records.workspaces().await?.iter().any(|one| one.name == *name);
        if !taken {
            return Ok(());
        }
        let message = format!("there is a workspace {:?} already", name.as_str());
        Err(Failure::new(Code::WorkspaceExists, message).with_remedy("give the new one another name"))
    }

    /// A name for the image of a workspace that no image has.
    async fn free_image_name(&self, workspace: &WorkspaceName) -> Result<ImageName, Failure> {
        for number in 1..=TRIES {
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            let name: ImageName = format!("{workspace}-import{suffix}").parse()?;
            match self.engine.host.image(&name).await {
                Err(failure) if failure.code() == Code::ImageNotFound => return Ok(name),
                _ => {}
            }
        }
        let message = format!("there are {TRIES} images of imported workspaces called {workspace} already");
        Err(Failure::new(Code::ImageExists, message)
            .with_remedy("remove some of them, or choose another name"))
    }

    /// Creates a workspace from an image that was made for it. If that fails, or the client of an agent disconnects, the
    /// image is removed. In its own task: the image must not be removed while a workspace is being created from it.
    async fn create_on(
        &self,
        image: ImageName,
        create: WorkspaceCreate,
    ) -> Result<WorkspaceCreated, Failure> {
        let context = self.clone();
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let created = context.engine.act(&context.caller, create, context.progress.clone()).await;
            let failed = created.is_err();
            let abandoned = match answer.send(created) {
                Err(Ok(created)) if !context.caller.is_operator() => {
                    WorkspaceCreate::undo(created, &context).await;
                    true
                }
                _ => false,
            };
            if (failed || abandoned)
                && let Err(failure) = context.remove_image(image.clone()).await
            {
                tracing::warn!(%image, %failure, "could not remove the image of a workspace that was not created");
            }
        });
        answered.await.map_err(|_| Failure::new(Code::Internal, "the import ended with a fault"))?
    }
}

//! `agentiso image kernel`: what machines boot with.

use std::io::{self, Write};

use agentiso_core::{Code, Failure};
use agentiso_runtime::{Installation, KernelBuild, KernelInfo, KernelKind};

use crate::args::{BuildKernel, KernelVerb, WhichKernel};
use crate::output::Output;
use crate::ui::{Stream, Table, bytes};

/// Performs a verb of `agentiso image kernel`.
pub async fn kernel(here: &Installation, verb: KernelVerb, output: Output) -> Result<(), Failure> {
    match verb {
        KernelVerb::Build(flags) => build(here, flags, output).await,
        KernelVerb::Ls => ls(here, output),
        KernelVerb::Info => info(here, output),
        KernelVerb::Use { kernel } => choose(here, kernel, output).await,
    }
}

/// Builds a kernel and puts it to use.
async fn build(installation: &Installation, flags: BuildKernel, output: Output) -> Result<(), Failure> {
    let jobs = flags.jobs.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
    });
    let wanted = KernelBuild { source: flags.source, jobs };
    let progress = output.progress();
    let built = super::interruptible(installation.build_kernel(wanted, &progress)).await;
    drop(progress);
    let kernel = built.map_err(resumable)?;
    output.result(&kernel, |out| tell_chosen(out, &kernel))
}

/// Lists kernels.
fn ls(installation: &Installation, output: Output) -> Result<(), Failure> {
    let all = installation.kernels();
    output.result(&all, |out| {
        let mut table = Table::new(["VERSION", "KIND", "SIZE", "CREATED", "IN USE", "SOURCE"]).align_right(2);
        for kernel in &all.kernels {
            table.row([
                kernel.version.clone(),
                word(kernel.kind).to_owned(),
                bytes(kernel.bytes),
                day(kernel),
                if kernel.in_use { "yes" } else { "" }.to_owned(),
                kernel.source.clone(),
            ]);
        }
        table.write(out)?;
        if all.kernels.is_empty() && out.is_terminal() {
            writeln!(out, "No kernel is prepared yet. Try: agentiso init")?;
        }
        match &all.unfinished_build {
            Some(_) if all.build_under_way => writeln!(out, "A kernel is being built."),
            Some(path) => {
                writeln!(out, "There is an unfinished build in {}.", path.display())?;
                writeln!(
                    out,
                    "'agentiso image kernel build' continues it; to discard it, remove that directory."
                )
            }
            None => Ok(()),
        }
    })
}

/// Shows the kernel in use.
fn info(installation: &Installation, output: Output) -> Result<(), Failure> {
    let current = installation.kernels().kernels.into_iter().find(|kernel| kernel.in_use);
    let kernel = current.ok_or_else(|| {
        Failure::new(Code::KernelNotFound, "no kernel is prepared yet").with_remedy("run 'agentiso init'")
    })?;
    output.result(&kernel, |out| {
        writeln!(out, "version  {}", kernel.version)?;
        writeln!(out, "kind     {}", word(kernel.kind))?;
        writeln!(out, "source   {}", kernel.source)?;
        if let Some(created) = kernel.created {
            writeln!(out, "created  {created}")?;
        }
        writeln!(out, "size     {}", bytes(kernel.bytes))?;
        writeln!(out, "blake3   {}", kernel.blake3)?;
        writeln!(out, "path     {}", kernel.path.display())
    })
}

/// Chooses a kernel.
async fn choose(installation: &Installation, which: WhichKernel, output: Output) -> Result<(), Failure> {
    let progress = output.progress();
    let chosen = match which {
        WhichKernel::Built => installation.use_built_kernel().await,
        WhichKernel::Packaged => super::interruptible(installation.use_packaged_kernel(&progress)).await,
    };
    drop(progress);
    let kernel = chosen?;
    output.result(&kernel, |out| tell_chosen(out, &kernel))
}

fn tell_chosen(out: &mut Stream, kernel: &KernelInfo) -> io::Result<()> {
    let (kind, version, size) = (word(kernel.kind), &kernel.version, bytes(kernel.bytes));
    if kernel.in_use {
        writeln!(out, "New machines use the {kind} kernel {version} ({size}).")
    } else {
        writeln!(
            out,
            "The {kind} kernel {version} ({size}) is ready, but the configuration names another one."
        )?;
        writeln!(out, "Remove `kernel` under [vm] to use it.")
    }
}

/// What was compiled is not lost.
fn resumable(failure: Failure) -> Failure {
    match failure.code() {
        Code::Cancelled => Failure::new(Code::Cancelled, "interrupted; the kernel in use has not changed")
            .with_remedy("the same command continues where it stopped"),
        _ => failure,
    }
}

fn word(kind: KernelKind) -> &'static str {
    match kind {
        KernelKind::Packaged => "packaged",
        KernelKind::Built => "built",
        KernelKind::Configured => "configured",
        KernelKind::Host => "host's",
    }
}

fn day(kernel: &KernelInfo) -> String {
    let text = kernel.created.map(|created| created.to_string()).unwrap_or_default();
    text.split('T').next().unwrap_or_default().to_owned()
}

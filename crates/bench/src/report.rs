//! The results of a benchmark.

use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Failure, ImageName, Resources, WorkspaceId};
use serde::Serialize;
use uuid::Uuid;

use agentiso_runtime::{Installation, StartRequest};

/// A measurement.
#[derive(Debug, Serialize)]
pub struct Measurement {
    /// What was measured.
    pub name: String,
    /// The value: the median, if there are several samples.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Number of samples.
    pub samples: usize,
    /// The bound it is checked against, if any.
    pub bound: Option<Bound>,
}

/// A bound on a value.
#[derive(Debug, Serialize)]
pub struct Bound {
    /// The bound as text.
    pub text: String,
    /// Whether the value is within it.
    pub kept: bool,
}

/// All measurements, and the environment they were taken in.
#[derive(Debug, Serialize)]
pub struct Report {
    /// QEMU's version.
    pub qemu: String,
    /// The acceleration.
    pub accel: agentiso_vmm::Accel,
    /// The guest kernel.
    pub kernel: String,
    /// The image.
    pub image: ImageName,
    /// The size of the machines.
    pub resources: Resources,
    /// The measurements.
    pub measurements: Vec<Measurement>,
}

impl Report {
    pub(super) async fn new(
        installation: &Installation,
        progress: &Arc<dyn Progress>,
    ) -> Result<Self, Failure> {
        let host = installation.host()?;
        let kernel = installation.prepare_kernel(progress).await?;
        let accel = installation.acceleration(&host, &kernel).await.accel;
        let directory = kernel.kernel.parent().and_then(|dir| dir.file_name()).unwrap_or_default();
        Ok(Self {
            qemu: host.qemu.version,
            accel,
            kernel: directory.to_string_lossy().into_owned(),
            image: installation.config.defaults.image_name()?,
            resources: installation.config.defaults.resources(),
            measurements: Vec::new(),
        })
    }

    pub(super) fn extend(&mut self, measurements: Vec<Measurement>) {
        self.measurements.extend(measurements);
    }
}

impl Measurement {
    pub(super) fn new(name: impl Into<String>, unit: &'static str, samples: &[f64]) -> Self {
        Self { name: name.into(), value: median(samples), unit, samples: samples.len(), bound: None }
    }

    pub(super) fn one(name: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self::new(name, unit, &[value])
    }

    pub(super) fn at_most(mut self, limit: f64) -> Self {
        self.bound = Some(Bound { text: format!("at most {limit}"), kept: self.value <= limit });
        self
    }

    pub(super) fn at_least(mut self, limit: f64) -> Self {
        self.bound = Some(Bound { text: format!("at least {limit}"), kept: self.value >= limit });
        self
    }
}

/// The median.
pub(super) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

/// The quantile: the value that this fraction of the samples does not exceed.
pub(super) fn percentile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(last.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// A machine of the default size.
pub(super) fn request(installation: &Installation, cold: bool) -> Result<StartRequest, Failure> {
    Ok(StartRequest {
        id: WorkspaceId::from_uuid(Uuid::now_v7()),
        image: installation.config.defaults.image_name()?,
        resources: installation.config.defaults.resources(),
        cold,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_percentile_is_not_exceeded_by_that_part() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&samples, 0.99), 198.0);
        assert_eq!(percentile(&[5.0], 0.99), 5.0);
        assert!(percentile(&[], 0.99).is_nan());
    }

    #[test]
    fn bounds_say_whether_they_are_kept() {
        assert!(Measurement::one("x", "ms", 2.0).at_most(3.0).bound.unwrap().kept);
        assert!(!Measurement::one("x", "ms", 2.0).at_least(3.0).bound.unwrap().kept);
    }
}

//! `distance`: the choices of copy kernels and of the window, under distances that change.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::process::ExitCode;
use std::thread;

use clap::Args;
use superpipe_core::CopyKernel;
#[cfg(superpipe_planted)]
use superpipe_core::planted::{Bug, choose};
use superpipe_sim::{check_kernel_outliers, check_kernels, check_window_outliers, check_windows};

use super::EXIT_INTEGRITY;
#[cfg(superpipe_planted)]
use super::planted::by_name;

/// Percent of noise, and one outlier in this many copies, of each check.
const NOISE: [(u64, u64); 4] = [(0, 0), (10, 0), (10, 200), (25, 50)];

/// Most percent of noise with which kernels and windows are chosen together.
const NOISE_WITH_KERNELS: u64 = 10;

#[derive(Args)]
pub(super) struct DistanceArguments {
    /// Plant this bug in core: one of the checks must fail
    #[cfg(superpipe_planted)]
    #[arg(long, value_name = "NAME", value_parser = by_name)]
    bug: Option<Bug>,
}

/// Makes the checks, and prints one line each. Exits with 6 if one fails, or with a bug if none does.
pub(super) fn check_distances(options: &DistanceArguments) -> ExitCode {
    #[cfg(superpipe_planted)]
    let is_planted = options.bug.is_some();
    #[cfg(superpipe_planted)]
    choose(options.bug);
    #[cfg(not(superpipe_planted))]
    let (is_planted, _) = (false, options);
    let mut checks = checks();
    if is_planted {
        checks.reverse();
    }
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let check_next = || {
        // One check that finds a bug is enough, and the short ones find most.
        if is_planted && has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let number = next.fetch_add(1, Ordering::Relaxed);
        let (what, check) = checks.get(number)?;
        let checked = check();
        has_failed.fetch_or(checked.is_err(), Ordering::Relaxed);
        let (Ok(text) | Err(text)) = checked;
        println!("{what}: {text}");
        Some(())
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| while check_next().is_some() {});
        }
    });
    let has_failed = has_failed.into_inner();
    if has_failed == is_planted { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INTEGRITY) }
}

/// A check, with what it checks.
type Check = (String, Box<dyn Fn() -> Result<String, String> + Sync>);

/// Returns the checks, those that take longest first.
fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for (noise_percent, outlier_one_in) in NOISE.into_iter().rev() {
        let noise = format!("noise {noise_percent} %, outliers 1 in {outlier_one_in}");
        let windows = move |copies| move || check_windows(noise_percent, outlier_one_in, copies);
        checks.push((format!("windows, plain copies, {noise}"), Box::new(windows(Some(CopyKernel::Plain)))));
        // With more noise it takes the choice of kernels longer than the limit of this check.
        if noise_percent <= NOISE_WITH_KERNELS {
            checks.push((format!("windows, {noise}"), Box::new(windows(None))));
        }
        checks.push((
            format!("kernels, {noise}"),
            Box::new(move || check_kernels(noise_percent, outlier_one_in)),
        ));
    }
    checks.push(("kernels, outliers at one distance".to_owned(), Box::new(check_kernel_outliers)));
    checks.push(("windows, outliers at one distance".to_owned(), Box::new(check_window_outliers)));
    checks
}

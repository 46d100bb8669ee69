//! `--distance`: how far apart the cores of this host are. Needs no server.

use super::options::ClientOptions;
use super::output::Output;
use crate::command_line::options::Core;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use serde::Serialize;
use superpipe::os::distance::{Distance, ProbeError, one_way_ns};
use superpipe::os::{CoreSet, PinError, allowed_cores};

/// Distance of two cores. The fields are the keys of `--json`.
#[derive(Debug, Serialize)]
pub struct Pair {
    event: &'static str,
    cores: [usize; 2],
    /// time of 8 bytes from one to the other
    ns: f64,
    distance: &'static str,
}

/// Probes every two allowed cores, or the core of the options and each other one, and prints them.
///
/// # Errors
/// There are no two cores, a core may not be used or does not answer, a thread cannot be started or pinned, or the output cannot be written.
pub fn print(session: &Session<'_>, options: &ClientOptions) -> Result<(), Failure> {
    let mut output = Output::open(options, &session.signals)?;
    let pairs = pairs(&allowed_cores(), options.common.core);
    if pairs.is_empty() {
        let text = "a distance needs two cores, and this process may use one; start it with more (taskset, a container's cpuset)";
        return Err(Failure::new(Code::Usage, text));
    }
    for (index, cores) in pairs.into_iter().enumerate() {
        let ns = one_way_ns(cores).map_err(failure)?;
        let pair = Pair { event: "distance", cores, ns, distance: Distance::of(ns).name() };
        let header = if index == 0 { " core  core  8 B, ns  distance\n" } else { "" };
        let line = format!("{header}{:>5} {:>5} {ns:>9.1}  {}\n", cores[0], cores[1], pair.distance);
        output.put_other(&line, &pair)?;
    }
    Ok(())
}

/// Every two of the allowed cores, or one core and each other one.
fn pairs(allowed: &CoreSet, core: Option<Core>) -> Vec<[usize; 2]> {
    let others =
        |core: usize| allowed.iter().filter(move |&other| other != core).map(move |other| [core, other]);
    match core {
        Some(Core::Number(core)) => others(core).collect(),
        Some(Core::Auto) | None => {
            allowed.iter().flat_map(|core| others(core).filter(|[a, b]| a < b)).collect()
        }
    }
}

fn failure(error: ProbeError) -> Failure {
    let code = match error {
        ProbeError::Pin(PinError::NoSuchCore { .. } | PinError::NotAllowed { .. }) => Code::Usage,
        ProbeError::Pin(PinError::Os(_)) | ProbeError::Thread(_) => Code::Device,
        ProbeError::Timeout => Code::Timeout,
    };
    Failure::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_all_or_those_of_one_core() {
        let allowed = CoreSet::parse("1,4-5").unwrap();
        assert_eq!(pairs(&allowed, None), [[1, 4], [1, 5], [4, 5]]);
        assert_eq!(pairs(&allowed, Some(Core::Auto)), [[1, 4], [1, 5], [4, 5]]);
        assert_eq!(pairs(&allowed, Some(Core::Number(4))), [[4, 1], [4, 5]]);
        assert_eq!(pairs(&allowed, Some(Core::Number(9))), [[9, 1], [9, 4], [9, 5]]);
        assert!(pairs(&CoreSet::parse("3").unwrap(), None).is_empty());
    }
}

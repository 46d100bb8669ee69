//! Reports: which file is one, where it goes, and what becomes of a run whose report cannot be written.

use crate::support::Scratch;
use std::fs;
use std::process::Command;

/// The reports of each tool.
const REPORTS: [(&str, &[&str]); 3] = [
    ("rsend", &["--json", "--trace"]),
    ("rrecv", &["--json", "--trace"]),
    ("rperf", &["--json", "--csv", "--plot", "--picture", "--trace"]),
];

impl Scratch {
    /// A command that nobody answers, in the directory of the data.
    fn alone(&self, tool: &'static str) -> Command {
        let mut command = self.command(tool);
        match tool {
            "rrecv" => command.args(["--accept-timeout=1ms", "--listen", &self.address()]),
            _ => command.arg("--connect-timeout=1ms"),
        };
        command.current_dir(self.data(""));
        command
    }
}

#[test]
fn a_report_takes_no_other_argument_for_its_file() {
    let scratch = Scratch::new("reports-equals");
    fs::write(scratch.data("copy.img"), "precious").unwrap();
    for (tool, reports) in REPORTS {
        for report in reports {
            for wrong in
                [&[*report, "copy.img"][..], &[report, "localhost", "copy.img"], &[&format!("{report}=")]]
            {
                let ended = scratch.run(tool, scratch.alone(tool).args(wrong));
                assert_eq!(ended.code, 2, "{tool} {wrong:?}: {}", ended.said);
                let words = format!("{report}=<FILE>");
                assert!(ended.said.contains(&words), "{tool} {wrong:?}: {}", ended.said);
                assert_eq!(fs::read_to_string(scratch.data("copy.img")).unwrap(), "precious");
                scratch.assert_only(&["copy.img"]);
            }
        }
    }
}

//! The picture of a trace has as many bars, packets and marks as the trace.

use superpipe_gantt::{COPY_IN, COPY_OUT, Color, FAULT, JOB, WIRE};
use superpipe_sim::{Case, RunOptions, Scenario, TooManyHosts, Trace, TraceEvent, run};

const TRACED: RunOptions = RunOptions { traced: true, turns_max: None };

fn trace(name: &str) -> Trace {
    run(&Scenario::by_name(name).unwrap().case(), TRACED).unwrap().trace
}

fn count(text: &str, element: &str, colors: &[Color]) -> usize {
    let is_of = |line: &&str| {
        colors
            .iter()
            .any(|Color(red, green, blue)| line.contains(&format!("#{red:02X}{green:02X}{blue:02X}")))
    };
    text.lines().filter(|line| line.starts_with(element)).filter(is_of).count()
}

#[test]
fn each_copy_has_a_bar_and_each_packet_a_slant() {
    for name in ["superpipeline", "out-of-cache", "direct-store", "cancel", "qp-error"] {
        let trace = trace(name);
        let text = trace.draw(name).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        let lines = trace.to_string();
        let copies = |what| lines.lines().filter(|line| line.contains(what)).count();
        // The legend has one of each shade more.
        assert_eq!(count(&text, "<rect", &COPY_IN), copies("CopyIn") + 2, "{name}");
        assert_eq!(count(&text, "<rect", &COPY_OUT), copies("CopyOut") + 2, "{name}");
        let packets = trace.0.iter().filter(|entry| matches!(entry.event, TraceEvent::Leave { .. })).count();
        assert_eq!(text.lines().filter(|line| line.starts_with("<polygon")).count(), packets, "{name}");
        assert_eq!(count(&text, "<polygon", &WIRE) > 0, name != "direct-store", "{name}");
        for lane in ["host 0 memory", "host 0 CPU", "host 1 memory", "host 1 CPU"] {
            assert!(text.contains(lane), "{name} has no lane {lane}");
        }
        for lane in ["host 0 NIC", "host 1 NIC"] {
            assert_eq!(text.contains(lane), name != "direct-store", "{name}: {lane}");
        }
    }
}

#[test]
fn jobs_have_lanes_of_their_own() {
    for name in ["provision", "provision-direct"] {
        let trace = trace(name);
        let text = trace.draw(name).unwrap();
        let ended = trace.to_string().lines().filter(|line| line.contains("JobEnd")).count();
        assert!(ended > 3, "{name}");
        // The legend has one of each shade.
        assert_eq!(count(&text, "<rect", &JOB), ended + 2, "{name}");
        for lane in ["host 0 jobs", "host 1 jobs"] {
            assert!(text.contains(lane), "{name} has no lane {lane}");
        }
    }
    assert!(!trace("superpipeline").draw("superpipeline").unwrap().contains("host 0 jobs"));
}

#[test]
fn faults_are_marked() {
    let marks = |name| count(&trace(name).draw(name).unwrap(), "<polyline", &[FAULT]);
    assert_eq!(marks("superpipeline"), 0);
    assert!(marks("killed") > 1, "the process, and the writes that nobody takes any more");
    assert_eq!(marks("lost-completion"), 1);
    assert!(marks("qp-error") > 3, "the QPs, the endpoints, and what was flushed");
}

#[test]
fn a_crowd_is_not_drawn() {
    let trace = run(&Case::crowd(1, 8), TRACED).unwrap().trace;
    let refused = trace.draw("a crowd").unwrap_err();
    assert_eq!(refused.downcast_ref(), Some(&TooManyHosts(9)));
    assert!(refused.to_string().starts_with("9 hosts cannot be drawn, 8 can"));
    assert!(Trace::default().draw("nothing").unwrap().contains("</svg>"));
}

//! The text, and what the specification asks of it.

use super::super::connection_line::tests::line;
use super::super::process_line::ProcessLine;
use super::*;
use std::collections::BTreeSet;

fn snapshot() -> Snapshot {
    Snapshot {
        pid: 7,
        program: "a\"b\\c\nd".to_owned(),
        library: [0, 1, 0],
        read_at_ns: 5,
        process: ProcessLine { connections_made: 3, ..ProcessLine::default() },
        pollers: vec![PollerLine { number: 2, armed: 9, ..PollerLine::default() }],
        connections: vec![ConnectionLine { active_at_ns: 1_000_000_005, ..line(4) }],
        unsettled: 0,
    }
}

#[test]
fn samples_have_their_values_and_escaped_labels() {
    let text = OpenMetrics(&[snapshot()]).to_string();
    let process = "pid=\"7\",program=\"a\\\"b\\\\c\\nd\"";
    for sample in [
        format!("superpipe_connections_made_total{{{process}}} 3"),
        format!("superpipe_poller_armed{{{process},poller=\"2\"}} 9"),
        format!("superpipe_transfers_sent_total{{{process},connection=\"4\"}} 400"),
        format!("superpipe_registrations_failed_total{{{process},connection=\"4\"}} 429"),
        format!("superpipe_active_at_seconds{{{process},connection=\"4\"}} 1.000000005"),
        format!(
            "superpipe_connection_state{{{process},connection=\"4\",superpipe_connection_state=\"closed-by-peer\"}} 1"
        ),
        format!(
            "superpipe_connection_state{{{process},connection=\"4\",superpipe_connection_state=\"open\"}} 0"
        ),
        format!(
            "superpipe_connection_info{{{process},connection=\"4\",fabric=\"verbs\",role=\"accepted\",\
             protocol=\"auto\",peer=\"10.1.2.3:456\"}} 1"
        ),
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample} is not in\n{text}");
    }
}

/// Each family is described once, before its samples, which follow one another; names end as their types and units ask; the end is marked.
#[test]
fn the_text_is_as_the_specification_asks() {
    let text = OpenMetrics(&[snapshot(), Snapshot { pid: 8, ..snapshot() }]).to_string();
    let (mut family, mut kind, mut seen) = (String::new(), String::new(), BTreeSet::new());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.last(), Some(&"# EOF"));
    assert!(text.ends_with('\n') && !text.contains("\n\n"));
    for line in &lines[..lines.len() - 1] {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, of) = described.split_once(' ').unwrap();
            assert!(["counter", "gauge", "info", "stateset"].contains(&of), "{line}");
            assert!(!name.ends_with("_total") && !name.ends_with("_info"), "{line}");
            (family, kind) = (name.to_owned(), of.to_owned());
            assert!(seen.insert(family.clone()), "{line} comes twice");
            continue;
        }
        if let Some(unit) = line.strip_prefix("# UNIT ") {
            let (name, unit) = unit.split_once(' ').unwrap();
            assert!(name == family && name.ends_with(&format!("_{unit}")), "{line}");
            continue;
        }
        if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(help.starts_with(&format!("{family} ")), "{line}");
            continue;
        }
        let suffix = match &*kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        assert!(line.starts_with(&format!("{family}{suffix}{{")), "{line} is in family {family}");
        let (_, value) = line.rsplit_once("} ").unwrap();
        value.parse::<f64>().unwrap();
    }
    assert_eq!(seen.len(), OF_PROCESSES.len() + OF_POLLERS.len() + OF_CONNECTIONS.len() + 2);
    for family in seen.iter().filter(|name| name.ends_with("_bytes") || name.ends_with("_seconds")) {
        assert!(text.contains(&format!("# UNIT {family} ")), "{family}");
    }
}

#[test]
fn nothing_published_is_families_without_samples() {
    let text = OpenMetrics(&[]).to_string();
    assert!(text.ends_with("# EOF\n") && text.lines().all(|line| line.starts_with('#')));
}

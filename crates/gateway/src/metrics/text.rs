//! From `OpenMetrics`, which the library writes, to the text format that every Prometheus tool reads.

use super::scrape::RETRIES;

const TOTAL: &str = "_total";

/// In `OpenMetrics` a counter's family is named without its `_total`, and the text ends in a mark. One counter is documented
/// under a name without it.
pub(super) fn to_prometheus(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut help: Option<&str> = None;
    for line in written.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = Some(rest);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let suffix = if kind == "counter" && name != RETRIES { TOTAL } else { "" };
            if let Some((_, words)) = help.take().and_then(|help| help.split_once(' ')) {
                text.extend(["# HELP ", name, suffix, " ", words, "\n"]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if let Some(rest) = line.strip_prefix(RETRIES).and_then(|rest| rest.strip_prefix(TOTAL)) {
            text.extend([RETRIES, rest, "\n"]);
        } else if !line.starts_with('#') {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counters_family_is_named_as_its_samples() {
        let written = "# HELP starts Starts.\n# TYPE starts counter\nstarts_total{a=\"b\"} 1\n\
                       # HELP runs Runs.\n# TYPE runs gauge\nruns 2\n# EOF\n";
        assert_eq!(
            to_prometheus(written),
            "# HELP starts_total Starts.\n# TYPE starts_total counter\nstarts_total{a=\"b\"} 1\n\
             # HELP runs Runs.\n# TYPE runs gauge\nruns 2\n"
        );
    }
}

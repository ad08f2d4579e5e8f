//! Server-sent events, as the HTML standard defines them, from chunks of any size.

/// The longest line. Events contain a step's output, which is bounded by the size of a request.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SseMessage {
    /// The `id:` of this event, not one of an earlier event.
    pub(super) id: Option<String>,
    pub(super) data: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of the event stream is longer than {LINE_BYTES_MAX} bytes")]
pub(super) struct LineTooLong;

/// Reads one stream from its beginning.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    lines_read: u64,
    id: Option<String>,
    /// Lines of data so far, each with a line feed.
    data: String,
}

impl SseParser {
    /// Returns the events that these bytes complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<SseMessage>, LineTooLong> {
        let mut messages = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    messages.extend(self.end_line());
                }
                other => {
                    self.after_return = false;
                    if self.line.len() >= LINE_BYTES_MAX {
                        return Err(LineTooLong);
                    }
                    self.line.push(other);
                }
            }
        }
        Ok(messages)
    }

    fn end_line(&mut self) -> Option<SseMessage> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let is_first = self.lines_read == 0;
        self.lines_read += 1;
        let line = if is_first { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // Names of events are not needed, comments have an empty field name, and `retry` is the client's choice.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseMessage> {
        let id = self.id.take();
        let mut data = std::mem::take(&mut self.data);
        // By the standard, an event without data is ignored.
        data.pop()?;
        Some(SseMessage { id, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<SseMessage> {
        SseParser::default().feed(text.as_bytes()).unwrap()
    }

    fn message(id: Option<&str>, data: &str) -> SseMessage {
        SseMessage { id: id.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn an_event_ends_at_an_empty_line() {
        let text = "id: 7\nevent: run_status\ndata: {\"seq\":7}\n\ndata: never ended\n";
        assert_eq!(read(text), [message(Some("7"), "{\"seq\":7}")]);
    }

    #[test]
    fn comments_and_events_without_data_are_not_events() {
        assert_eq!(read(": keep alive\n\nid: 3\n\nretry: 10\n\n\n"), []);
    }

    #[test]
    fn lines_of_data_are_joined_and_only_one_space_is_dropped() {
        assert_eq!(read("data: a\ndata:  b\ndata\ndata:c\n\n"), [message(None, "a\n b\n\nc")]);
    }

    #[test]
    fn an_id_counts_for_its_own_event_only() {
        let read = read("id: 1\ndata: a\n\ndata: b\n\n");
        assert_eq!(read, [message(Some("1"), "a"), message(None, "b")]);
    }

    #[test]
    fn every_line_ending_and_every_cut_gives_the_same_events() {
        let expected = [message(Some("1"), "é"), message(Some("2"), "b")];
        for ending in ["\n", "\r\n", "\r"] {
            let text = "\u{feff}id: 1|data: é||id: 2|data: b||".replace('|', ending);
            for cut in 0..text.len() {
                let (first, second) = text.as_bytes().split_at(cut);
                let mut parser = SseParser::default();
                let mut messages = parser.feed(first).unwrap();
                messages.extend(parser.feed(second).unwrap());
                assert_eq!(messages, expected, "{ending:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = SseParser::default();
        assert_eq!(parser.feed(&vec![b'x'; LINE_BYTES_MAX + 1]), Err(LineTooLong));
    }
}

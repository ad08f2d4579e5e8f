//! Colours and dashes that people tell apart who do not tell all colours apart (after Okabe and Ito).

use super::super::report::ArmReport;
use super::svg::Stroke;

const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];

const WIDTH: f64 = 2.0;

/// A stroke for each arm: a colour for each kind of server and a dash for each kind of client, where both differ.
pub(super) fn strokes(arms: &[&ArmReport]) -> Vec<Stroke> {
    let mut servers: Vec<&str> = Vec::new();
    let mut places = Vec::new();
    for arm in arms {
        let server = servers.iter().position(|known| *known == arm.serving).unwrap_or_else(|| {
            servers.push(&arm.serving);
            servers.len() - 1
        });
        let before = places.iter().filter(|(known, _)| *known == server).count();
        places.push((server, before));
    }
    let is_crossed = servers.len() > 1 && places.iter().any(|(_, before)| *before > 0);
    let stroke = |(number, (server, before)): (usize, (usize, usize))| {
        let (colour, dash) = if is_crossed { (server, before) } else { (number, number / COLOURS.len()) };
        Stroke { colour: COLOURS[colour % COLOURS.len()], width: WIDTH, dash: DASHES[dash % DASHES.len()] }
    };
    places.into_iter().enumerate().map(stroke).collect()
}

//! Colours and dashes that colour-blind readers can distinguish (after Okabe and Ito).

use super::svg::Stroke;
use crate::contention::report::ArmReport;

const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];

const WIDTH: f64 = 2.0;

/// A stroke per arm. If arms differ in both server and client, the server gives the colour and the client the dash.
pub(super) fn strokes(arms: &[&ArmReport]) -> Vec<Stroke> {
    let mut servers: Vec<&str> = Vec::new();
    let mut places = Vec::new();
    for arm in arms {
        let server = servers.iter().position(|known| *known == arm.arm.serving).unwrap_or_else(|| {
            servers.push(&arm.arm.serving);
            servers.len() - 1
        });
        let client = places.iter().filter(|(known, _)| *known == server).count();
        places.push((server, client));
    }
    let is_crossed = servers.len() > 1 && places.iter().any(|(_, client)| *client > 0);
    let stroke = |(number, (server, client)): (usize, (usize, usize))| {
        let (colour, dash) = if is_crossed { (server, client) } else { (number, number / COLOURS.len()) };
        Stroke { colour: COLOURS[colour % COLOURS.len()], width: WIDTH, dash: DASHES[dash % DASHES.len()] }
    };
    places.into_iter().enumerate().map(stroke).collect()
}

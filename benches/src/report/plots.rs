//! Charts of a report, as SVG.

use anyhow::Result;
use plotters::{
    coord::combinators::IntoLogRange,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::Report;
use crate::measure::Measured;

/// The colors of our results, then of peers in order.
const COLORS: [RGBColor; 9] = [
    RGBColor(18, 62, 124),
    RGBColor(214, 96, 36),
    RGBColor(60, 145, 90),
    RGBColor(150, 90, 170),
    RGBColor(190, 160, 40),
    RGBColor(70, 160, 185),
    RGBColor(200, 60, 80),
    RGBColor(120, 90, 60),
    RGBColor(110, 120, 130),
];
const GRAY: RGBColor = RGBColor(140, 148, 158);
const INK: RGBColor = RGBColor(28, 36, 48);

/// GFLOP/s of square matrix multiplications by size, ours and peers'; `None` without such cases.
///
/// # Errors
///
/// An error of the drawing library.
pub(super) fn products(report: &Report) -> Result<Option<String>> {
    let size = |name: &str| name.strip_prefix("matmul_")?.parse::<f64>().ok();
    let cases: Vec<(f64, &Measured)> =
        report.in_order().filter_map(|(name, measured)| Some((size(name)?, measured))).collect();
    let (Some(first), Some(last)) = (cases.first(), cases.last()) else { return Ok(None) };
    let peak = peak(report);
    let rate = |measured: &Measured, us: f64| measured.flops / us / 1e3;
    let theirs = |peer: &str| -> Vec<(f64, f64)> {
        let point = |(n, m): &(f64, &Measured)| Some((*n, rate(m, m.peers.get(peer)?.us)));
        cases.iter().filter_map(point).collect()
    };
    let mut lines =
        vec![("arrayjit".to_owned(), cases.iter().map(|(n, m)| (*n, m.gflops)).collect::<Vec<_>>())];
    lines.extend(report.peers.iter().map(|(peer, _)| (peer.clone(), theirs(peer))));
    lines.retain(|(_, points)| !points.is_empty());
    let most = lines.iter().flat_map(|(_, points)| points).fold(peak, |most, point| most.max(point.1));

    draw((900, 420), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d((first.0 * 0.9..last.0 * 1.1).log_scale().base(2.0), 0.0..most * 1.05)?;
        let mesh = |size: &f64| format!("{size:.0}");
        chart
            .configure_mesh()
            .x_desc("n")
            .y_desc("GFLOP/s")
            .x_label_formatter(&mesh)
            .light_line_style(WHITE)
            .draw()?;
        if peak > 0.0 {
            chart.draw_series(LineSeries::new(
                [(first.0 * 0.9, peak), (last.0 * 1.1, peak)],
                GRAY.stroke_width(2),
            ))?;
        }
        for (i, (name, points)) in lines.iter().enumerate() {
            let color = COLORS[i % COLORS.len()];
            let style = color.stroke_width(if i == 0 { 3 } else { 2 });
            chart
                .draw_series(LineSeries::new(points.clone(), style).point_size(3))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        let mut labels = chart.configure_series_labels();
        labels
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(GRAY)
            .draw()?;
        Ok(())
    })
    .map(Some)
}

/// Milliseconds to compile by the number of statements, for each family of programs; `None` if that was not
/// measured.
///
/// # Errors
///
/// An error of the drawing library.
pub(super) fn growth(report: &Report) -> Result<Option<String>> {
    let point = |&(size, ms): &(usize, f64)| (size as f64, ms);
    let lines: Vec<(&str, Vec<(f64, f64)>)> = report
        .growth
        .iter()
        .map(|growth| (growth.family.as_str(), growth.points.iter().map(point).collect()))
        .collect();
    let all = || lines.iter().flat_map(|(_, points)| points);
    let bounds = |of: &dyn Fn(&(f64, f64)) -> f64| {
        all().map(of).fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)))
    };
    let ((left, right), (low, high)) = (bounds(&|point| point.0), bounds(&|point| point.1));
    if high == 0.0 {
        return Ok(None);
    }
    draw((900, 560), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(
                (left * 0.9..right * 2.6).log_scale().base(2.0),
                (low / 1.5..high * 1.5).log_scale(),
            )?;
        let number = |value: &f64| format!("{value:.0}");
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("statements").y_desc("ms").x_label_formatter(&number).y_label_formatter(&number);
        mesh.light_line_style(WHITE).draw()?;
        let slope = [(left, left / 4.0), (right, right / 4.0)];
        chart.draw_series(LineSeries::new(slope, GRAY.stroke_width(1)))?;
        for (i, (name, points)) in lines.iter().enumerate() {
            let style = COLORS[i % COLORS.len()].stroke_width(2);
            chart.draw_series(LineSeries::new(points.clone(), style).point_size(3))?;
            let Some(&last) = points.last() else { continue };
            let text = ("sans-serif", 12).into_font().color(&COLORS[i % COLORS.len()]);
            let text = text.pos(Pos::new(HPos::Left, VPos::Center));
            let label = EmptyElement::at(last) + Text::new((*name).to_owned(), (8, 0), text);
            chart.draw_series([label])?;
        }
        Ok(())
    })
    .map(Some)
}

/// A roofline chart of every case; `None` if the machine's limits are not known.
///
/// # Errors
///
/// An error of the drawing library.
pub(super) fn roofline(report: &Report) -> Result<Option<String>> {
    let points: Vec<(f64, f64, &str)> = report
        .in_order()
        .filter(|(_, m)| m.flops > 0.0 && m.bytes > 0.0 && m.roofline > 0.0)
        .map(|(name, m)| (m.flops / m.bytes, m.gflops, name))
        .collect();
    let (Some(roofline), false) = (report.host_roofline(), points.is_empty()) else { return Ok(None) };
    let peak = roofline.flops / 1e9;
    let far = |bytes: f64| roofline.bandwidth(bytes).map_or(0.0, |bandwidth| bandwidth / 1e9);
    let roofs = [("in the second cache", far(262_144.0)), ("in memory", far(f64::MAX))];
    let bounds = |of: fn(&(f64, f64, &str)) -> f64| {
        points.iter().map(of).fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (left, right) = bounds(|point| point.0);
    let (low, _) = bounds(|point| point.1);
    let (left, right) = (left / 2.0, (right * 6.0).max(20.0));

    draw((1100, 620), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d((left..right).log_scale(), (low / 2.0..peak * 2.0).log_scale())?;
        let number = |value: &f64| format!("{value}");
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("operations per byte").y_desc("GFLOP/s").x_label_formatter(&number);
        mesh.y_label_formatter(&number).light_line_style(WHITE).draw()?;
        for (name, gbps) in roofs {
            let corner = peak / gbps;
            let line = [(left, left * gbps), (corner, peak), (right, peak)];
            chart.draw_series(LineSeries::new(line, GRAY.stroke_width(2)))?;
            let text = format!("{gbps:.0} GB/s {name}");
            let style = ("sans-serif", 13).into_font().color(&GRAY).pos(Pos::new(HPos::Left, VPos::Bottom));
            chart.draw_series([Text::new(text, (left * 1.1, left * gbps * 1.15), style)])?;
        }
        for &(x, y, name) in &points {
            chart.draw_series([Circle::new((x, y), 4, COLORS[0].filled())])?;
            let style = ("sans-serif", 12).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
            let label = EmptyElement::at((x, y)) + Text::new(name.to_owned(), (7, 0), style);
            chart.draw_series([label])?;
        }
        Ok(())
    })
    .map(Some)
}

/// A peer's time over ours in each of its cases; `None` if it has no case.
///
/// # Errors
///
/// An error of the drawing library.
pub(super) fn ratios(report: &Report, peer: &str, version: &str) -> Result<Option<String>> {
    let bars: Vec<(&str, f64)> =
        report.in_order().filter_map(|(name, m)| Some((name, m.peers.get(peer)?.ratio))).collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let (low, high) =
        bars.iter().fold((0.5f64, 2.0f64), |(low, high), bar| (low.min(bar.1), high.max(bar.1)));
    let count = bars.len() as f64;
    let height = 76 + 19 * bars.len() as u32;
    draw((540, height), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{peer} {version}").trim(), ("sans-serif", 15).into_font().color(&INK))
            .margin(8)
            .x_label_area_size(24)
            .y_label_area_size(170)
            .build_cartesian_2d((low / 1.15..high * 1.6).log_scale(), count..0.0)?;
        let (number, none) = (|value: &f64| format!("{value}"), |_: &f64| String::new());
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().x_labels(6).y_labels(1).x_label_formatter(&number).y_label_formatter(&none);
        mesh.light_line_style(WHITE).draw()?;
        for (i, &(name, ratio)) in bars.iter().enumerate() {
            let color = if ratio >= 1.0 { COLORS[0] } else { COLORS[6] };
            let (top, bottom) = (i as f64 + 0.15, i as f64 + 0.85);
            chart.draw_series([Rectangle::new([(1.0, top), (ratio, bottom)], color.filled())])?;
            let at = |anchor| ("sans-serif", 11).into_font().color(&INK).pos(Pos::new(anchor, VPos::Center));
            let label = EmptyElement::at((ratio.max(1.0), i as f64 + 0.5))
                + Text::new(format!("{ratio:.2}"), (4, 0), at(HPos::Left));
            chart.draw_series([label])?;
            let case = EmptyElement::at((low / 1.15, i as f64 + 0.5))
                + Text::new(name.to_owned(), (-8, 0), at(HPos::Right));
            chart.draw_series([case])?;
        }
        chart.draw_series(LineSeries::new([(1.0, 0.0), (1.0, count)], INK.stroke_width(1)))?;
        Ok(())
    })
    .map(Some)
}

/// The measured peak for the number of threads of the report; 0 if it is not known.
fn peak(report: &Report) -> f64 {
    report.host_roofline().map_or(0.0, |roofline| roofline.flops / 1e9)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws a chart of this size.
fn draw(
    size: (u32, u32),
    picture: impl FnOnce(&Area) -> Result<(), Box<dyn std::error::Error>>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let drawn = area.fill(&WHITE).map_err(Into::into).and_then(|()| picture(&area));
        let presented = drawn.and_then(|()| area.present().map_err(Into::into));
        presented.map_err(|error| anyhow::anyhow!("drawing a picture: {error}"))?;
    }
    Ok(svg)
}

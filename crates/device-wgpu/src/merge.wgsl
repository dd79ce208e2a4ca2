// Copies bytes between any positions. Each invocation computes one word of the destination: it keeps the
// bytes outside of the copy and replaces the others.
@group(0) @binding(0) var<uniform> job: vec4<u32>; // first byte written, first byte read, number of bytes
@group(0) @binding(1) var<storage, read_write> to: array<u32>;
@group(0) @binding(2) var<storage, read_write> source: array<u32>;

fn byte(at: u32) -> u32 {
    return (source[at >> 2u] >> (8u * (at & 3u))) & 0xffu;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = (group.x + groups.x * (group.y + groups.y * group.z)) * 64u + local;
    let first = job.x >> 2u;
    let words = ((job.x + job.z + 3u) >> 2u) - first;
    if index >= words {
        return;
    }
    var word = to[first + index];
    for (var i = 0u; i < 4u; i++) {
        let at = (first + index) * 4u + i;
        if at >= job.x && at - job.x < job.z {
            let shift = 8u * i;
            word = (word & ~(0xffu << shift)) | (byte(job.y + (at - job.x)) << shift);
        }
    }
    to[first + index] = word;
}

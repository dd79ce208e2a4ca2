// 1 workgroups, 4 words
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
@group(0) @binding(2) 
var<storage, read_write> slab_1_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var i1_next: i32;
    var bits: u32 = 2139095040u;
    var rest: u32;
    var steps: u32;
    var bits_1: u32 = 2143289344u;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let symbol_shift = i32(_e9.w);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 8i) {
        } else {
            break;
        }
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < min(4i, symbol_shift)) {
            } else {
                break;
            }
            let _e43 = ((symbol_shift + i0_) + -1i);
            let _e46 = ((_e43 >= 0i) & (_e43 < 8i));
            let _e52 = slab_0_[(at_0_ + select(0u, u32(_e43), _e46))];
            let _e56 = bits;
            slab_0_[(at_2_ + u32(i0_))] = bitcast<u32>(select(bitcast<f32>(_e56), bitcast<f32>(_e52), _e46));
            continuing {
                let _e63 = i1_next;
                i1_next = (_e63 + 1i);
            }
        }
        let _e70 = slab_1_[(at_1_ + u32(i0_))];
        let _e72 = bitcast<u32>(bitcast<i32>(_e70));
        let _e75 = slab_1_[(at_1_ + u32(i0_))];
        let _e77 = bitcast<u32>(bitcast<i32>(_e75));
        let _e78 = (_e77 < 8u);
        let _e84 = slab_0_[(at_0_ + select(0u, (0u + (_e77 * 1u)), _e78))];
        let _e87 = select(0.5f, bitcast<f32>(_e84), _e78);
        let _e89 = bitcast<u32>(_e87);
        let _e92 = (_e89 & 2147483647u);
        let _e93 = (bitcast<u32>(3f) & 2147483647u);
        let _e96 = (_e92 & 8388607u);
        let _e100 = (_e93 & 8388607u);
        let _e104 = max(select(_e100, (_e100 | 8388608u), (_e93 >= 8388608u)), 1u);
        let _e109 = max((_e93 >> 23u), 1u);
        rest = (select(_e96, (_e96 | 8388608u), (_e92 >= 8388608u)) % _e104);
        let _e113 = (_e92 < _e93);
        steps = select((max((_e92 >> 23u), 1u) - _e109), 0u, _e113);
        loop {
            let _e116 = steps;
            if (_e116 > 0u) {
            } else {
                break;
            }
            let _e118 = min(_e116, 8u);
            let _e119 = rest;
            rest = ((_e119 << _e118) % _e104);
            steps = (_e116 - _e118);
        }
        let _e123 = rest;
        let _e125 = bitcast<u32>(f32(_e123));
        let _e128 = ((_e125 >> 23u) + _e109);
        let _e147 = bits_1;
        if (_e72 < 8u) {
            slab_0_[(at_2_ + (0u + (_e72 * 1u)))] = bitcast<u32>(select(select(bitcast<f32>((select(select((_e123 << min((_e109 - 1u), 23u)), (((_e128 - 150u) << 23u) | (_e125 & 8388607u)), (_e128 > 150u)), 0u, (_e123 == 0u)) | (_e89 & 2147483648u))), _e87, _e113), bitcast<f32>(_e147), (((_e93 == 0u) | (_e92 >= 2139095040u)) | (_e93 > 2139095040u))));
        }
        continuing {
            let _e160 = i0_next;
            i0_next = (_e160 + 1i);
        }
    }
}

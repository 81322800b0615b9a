-- Slurm's burst_buffer/lua plugin (BurstBufferType=burst_buffer/lua), which has tierctl read and follow the directives of a
-- job script: #BB_LUA lines, or those of the word that Directive= in burst_buffer.conf names. Slurm wants the file beside
-- slurm.conf. Set the three lines below. All of it runs on slurmctld's node, as the job's user: PLACE and the paths of
-- directives have to be there too, so it serves a burst buffer that nodes share. docs/stage.md says what directives may ask.

local TIERCTL = "/usr/local/bin/tierctl"
local PLACE = "/mnt/bb"
local WORD = "#BB_LUA"

local function quoted(text)
    return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

-- What tierctl printed, and whether it succeeded. The user cannot read slurmctld's copy of the script, so tierctl gets one.
-- Each user has a log, in a folder that no other one made. `uid` nil: it is not known, and the command is slurmctld's own.
local function tierctl(words, job_script, uid, gid)
    local log = "log=log-$(id -u) && { mkdir -m 700 $log 2> /dev/null || " ..
        "[ \"$(stat -c %u $log)\" = \"$(id -u)\" ] || { echo \"$PWD/$log: another user made it\"; false; }; }"
    local own = "copy=$(mktemp) && cat > \"$copy\" && cd " .. quoted(PLACE) .. " && " .. log .. " && " .. quoted(TIERCTL) ..
        " stage --script \"$copy\" " .. words .. " --place " .. quoted(PLACE) .. " --log $log --word " .. quoted(WORD) ..
        " 2>&1; status=$?; rm -f \"$copy\"; exit $status"
    local command = "sh -c " .. quoted(own)
    if uid and tonumber(uid) ~= 0 then
        command = "setpriv --reuid=" .. uid .. " --regid=" .. gid .. " --clear-groups " .. command
    end
    local pipe = io.popen(command .. " < " .. quoted(job_script) .. "; echo status $?")
    local text = pipe:read("*a")
    pipe:close()
    local status = tonumber(text:match("status (%d+)%s*$"))
    text = text:gsub("status %d+%s*$", "")
    return text, status == 0
end

-- Of the job's folder: this Slurm does not say of which user the job is that it tears down.
local function owner(job_id)
    local pipe = io.popen("stat -c '%u %g' " .. quoted(PLACE .. "/" .. job_id) .. " 2>/dev/null")
    local uid, gid = pipe:read("*n", "*n")
    pipe:close()
    return uid, gid
end

local function phase(name, job_id, job_script, uid, gid)
    if not uid then
        uid, gid = owner(job_id)
    end
    local text, done = tierctl("--job " .. quoted(job_id) .. " --phase " .. name, job_script, uid, gid)
    if not done then
        slurm.log_error("burst_buffer.lua: job %s: %s: %s", tostring(job_id), name, text)
        return slurm.ERROR, text
    end
    return slurm.SUCCESS, text
end

-- At submission: a script with a wrong line is refused. Its user reads why, where Slurm has a way to say it; slurmctld's log does.
function slurm_bb_job_process(job_script, uid, gid)
    local text, right = tierctl("--check", job_script, uid, gid)
    if not right then
        slurm.log_error("burst_buffer.lua: %s", text)
        if slurm.log_user then
            slurm.log_user("%s", text)
        end
        return slurm.ERROR, text
    end
    return slurm.SUCCESS
end

-- Slurm wants a pool with each capacity=: pool=tierbench, of whole MiB of what PLACE has.
function slurm_bb_pools()
    local pipe = io.popen("stat -f -c '%b %S' " .. quoted(PLACE))
    local blocks, size = pipe:read("*n", "*n")
    pipe:close()
    local mib = math.floor((blocks or 0) * (size or 0) / 1048576)
    return slurm.SUCCESS, string.format('{"pools":[{"id":"tierbench","quantity":%d,"granularity":1048576}]}', mib)
end

function slurm_bb_setup(job_id, uid, gid, pool, bb_size, job_script)
    return phase("setup", job_id, job_script, uid, gid)
end

function slurm_bb_data_in(job_id, job_script, uid, gid)
    return phase("in", job_id, job_script, uid, gid)
end

function slurm_bb_test_data_in()
    return slurm.SUCCESS, ""
end

function slurm_bb_real_size()
    return slurm.SUCCESS
end

-- The job's variables, a line NAME=VALUE each.
function slurm_bb_paths(job_id, job_script, path_file, uid, gid)
    local result, text = phase("env", job_id, job_script, uid, gid)
    local file = io.open(path_file, "w")
    for name, value in text:gmatch("export ([%w_]+)='([^\n]*)'\n") do
        file:write(name, "=", value:gsub("'\\''", "'"), "\n")
    end
    file:close()
    return result
end

function slurm_bb_pre_run()
    return slurm.SUCCESS
end

function slurm_bb_post_run()
    return slurm.SUCCESS
end

-- An error keeps the job in the state "stage out" with its folders, and its user's files in them.
function slurm_bb_data_out(job_id, job_script, uid, gid)
    return phase("out", job_id, job_script, uid, gid)
end

function slurm_bb_test_data_out()
    return slurm.SUCCESS, ""
end

function slurm_bb_job_teardown(job_id, job_script, hurry, uid, gid)
    return phase("teardown", job_id, job_script, uid, gid)
end

function slurm_bb_get_status()
    return slurm.SUCCESS, "tierctl stage works for jobs with " .. WORD .. " lines"
end

package child

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// environment returns env, or this process's, with the marker, and with only
// the last of entries that have the same name, as exec.Cmd does: getenv would
// find the first.
func environment(env []string, marker string) []string {
	if env == nil {
		env = os.Environ()
	}
	all := append(env[:len(env):len(env)], marker)
	if marker == "" {
		all = env
	}
	at := make(map[string]int, len(all))
	out := make([]string, 0, len(all))
	for _, kv := range all {
		name := envName(kv)
		if i, ok := at[name]; ok {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}

func envName(kv string) string {
	// Windows keeps working directories in names that begin with "=".
	i := strings.IndexByte(kv, '=')
	if i == 0 {
		if j := strings.IndexByte(kv[1:], '='); j >= 0 {
			i = j + 1
		}
	}
	if i < 0 {
		return kv
	}
	if runtime.GOOS == "windows" {
		return strings.ToUpper(kv[:i])
	}
	return kv[:i]
}

func getenv(env []string, name string) string {
	for _, kv := range env {
		if envName(kv) == name {
			return kv[len(name)+1:]
		}
	}
	return ""
}

func hasSeparator(name string) bool {
	return strings.ContainsRune(name, '/') || (runtime.GOOS == "windows" && strings.ContainsAny(name, `\:`))
}

// lookPath finds the file to start, by the PATH of env. A name with a slash is
// tried as it is, relative to dir.
func lookPath(name string, env []string, dir string) (string, *StartError) {
	if err := checkDir(dir); err != nil {
		return "", &StartError{Args0: name, Dir: dir, Err: err, badDir: true}
	}
	if hasSeparator(name) {
		file := name
		if dir != "" && !filepath.IsAbs(name) {
			file = filepath.Join(dir, name)
		}
		found, err := executable(file, env)
		if err == nil && file != name {
			// The system resolves it again, after it has changed to dir.
			found, err = filepath.Abs(found)
		}
		if err == nil {
			return found, nil
		}
		e := &StartError{Args0: name, Dir: dir, Err: err}
		if err != syscall.ENOENT && err != syscall.ENOTDIR {
			e.File = file
		}
		if err == syscall.ENOTDIR {
			e.Err = syscall.ENOENT
		}
		return "", e
	}
	path := getenv(env, "PATH")
	e := &StartError{Args0: name, Path: path, Dir: dir, Err: fs.ErrNotExist}
	if name == "" {
		return "", e
	}
	for _, d := range filepath.SplitList(path) {
		// An entry that depends on the working directory lets whoever owns
		// that directory choose the command; os/exec refuses such finds too.
		if !filepath.IsAbs(d) {
			continue
		}
		file := filepath.Join(d, name)
		found, err := executable(file, env)
		if err == nil {
			return found, nil
		}
		// Go on after a file that cannot be run, as shells do, but say so if
		// there is no better one.
		if e.File == "" && err != syscall.ENOENT && err != syscall.ENOTDIR {
			e.File, e.Err = file, err
		}
	}
	return "", e
}

package penstock_test

import "testing"

// TestPackageDocs reports packages without a package comment.
func TestPackageDocs(t *testing.T) {
	for _, p := range list(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}
